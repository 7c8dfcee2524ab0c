// What the searches try, found by trying: tables of candidates per format, 16 long, those of bases a multiple of it.
// bases: the grid value that the group's extreme is sent to. low, high: which part of the range of the values the grid
// leaves out at each end (negative: reaches past it). Steps: neighbours of the rounded group scale; the first is 0.

#define GRID_Q3 ((grid){-4, 3, false})
#define GRID_Q6 ((grid){-32, 31, false})
#define GRID_Q4_0 ((grid){-8, 7, false})
#define GRID_Q5_0 ((grid){-16, 15, false})
#define GRID_IQ4 ((grid){-127, 113, true})

enum { N_Q3 = 32 };
static const float bases_q3[32] = {
    -2.2f,   -2.352f, -2.504f, -2.656f, -2.808f, -2.96f, -3.112f, -3.264f, -3.416f, -3.568f, -3.72f,
    -3.872f, -4.024f, -4.176f, -4.328f, -4.48f,  1.95f,  2.044f,  2.138f,  2.232f,  2.326f,  2.42f,
    2.514f,  2.608f,  2.702f,  2.796f,  2.89f,   2.984f, 3.078f,  3.172f,  3.266f,  3.36f,
};
enum { N_Q6 = 32 };
static const float bases_q6[32] = {
    -30.08f,  -30.464f, -30.848f, -31.232f, -31.616f, -32,     -32.384f, -32.768f, -33.152f, -33.536f, -33.92f,
    -34.304f, -34.688f, -35.072f, -35.456f, -35.84f,  29.14f,  29.512f,  29.884f,  30.256f,  30.628f,  31,
    31.372f,  31.744f,  32.116f,  32.488f,  32.86f,   33.232f, 33.604f,  33.976f,  34.348f,  34.72f,
};
enum { N_IQ4 = 32 };
static const float bases_iq4[32] = {
    -95.25f,   -98.3827f, -101.515f, -104.648f, -107.781f, -110.913f, -114.046f, -117.179f,
    -120.311f, -123.444f, -126.577f, -129.709f, -132.842f, -135.975f, -139.107f, -142.24f,
    84.75f,    87.5373f,  90.3247f,  93.112f,   95.8993f,  98.6867f,  101.474f,  104.261f,
    107.049f,  109.836f,  112.623f,  115.411f,  118.198f,  120.985f,  123.773f,  126.56f,
};
enum { N_Q4_0 = 32 };
static const float bases_q4_0[32] = {
    -6,        -6.19733f, -6.39467f, -6.592f,   -6.78933f, -6.98667f, -7.184f,   -7.38133f,
    -7.57867f, -7.776f,   -7.97333f, -8.17067f, -8.368f,   -8.56533f, -8.76267f, -8.96f,
    5.25f,     5.42267f,  5.59533f,  5.768f,    5.94067f,  6.11333f,  6.286f,    6.45867f,
    6.63133f,  6.804f,    6.97667f,  7.14933f,  7.322f,    7.49467f,  7.66733f,  7.84f,
};
enum { N_Q5_0 = 32 };
static const float bases_q5_0[32] = {
    -13.6f,   -13.888f, -14.176f, -14.464f, -14.752f, -15.04f, -15.328f, -15.616f, -15.904f, -16.192f, -16.48f,
    -16.768f, -17.056f, -17.344f, -17.632f, -17.92f,  12.75f,  13.02f,   13.29f,   13.56f,   13.83f,   14.1f,
    14.37f,   14.64f,   14.91f,   15.18f,   15.45f,   15.72f,  15.99f,   16.26f,   16.53f,   16.8f,
};
static const float low_q2[16] = {
    -0.05f, -0.05f, -0.05f, -0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.12f, 0.12f, 0.12f, 0.12f, 0.2f, 0.2f, 0.2f, 0.2f,
};
static const float high_q2[16] = {
    -0.05f, 0.05f, 0.12f, 0.2f, -0.05f, 0.05f, 0.12f, 0.2f, -0.05f, 0.05f, 0.12f, 0.2f, -0.05f, 0.05f, 0.12f, 0.2f,
};
static const float low_q4[16] = {
    -0.01f, -0.01f, -0.01f, -0.01f, 0.015f, 0.015f, 0.015f, 0.015f,
    0.04f,  0.04f,  0.04f,  0.04f,  0.07f,  0.07f,  0.07f,  0.07f,
};
static const float high_q4[16] = {
    -0.01f, 0.015f, 0.04f, 0.07f, -0.01f, 0.015f, 0.04f, 0.07f,
    -0.01f, 0.015f, 0.04f, 0.07f, -0.01f, 0.015f, 0.04f, 0.07f,
};
static const float low_q5[16] = {
    -0.006f, -0.006f, -0.006f, -0.006f, 0.004f, 0.004f, 0.004f, 0.004f,
    0.014f,  0.014f,  0.014f,  0.014f,  0.026f, 0.026f, 0.026f, 0.026f,
};
static const float high_q5[16] = {
    -0.006f, 0.004f, 0.014f, 0.026f, -0.006f, 0.004f, 0.014f, 0.026f,
    -0.006f, 0.004f, 0.014f, 0.026f, -0.006f, 0.004f, 0.014f, 0.026f,
};
static const float steps_sc[16] = {
    0, 0, 0, 1, 1, 1, -1, -1, -1, 0, 0, 1, -1, 2, -2, 2,
};
static const float steps_mn[16] = {
    0, 1, -1, 0, 1, -1, 0, 1, -1, 2, -2, 2, -2, 0, 0, 1,
};
static const float steps_one[16] = {
    0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8,
};
static const float scale_nudges[16] = {
    1,      1.01f,   0.99f,   1.02f, 0.98f, 1.03f,  0.97f,  1.005f,
    0.995f, 1.0025f, 0.9975f, 1.04f, 0.96f, 1.015f, 0.985f, 1.0075f,
};
static const float line_nudges[16][2] = {
    {1.0f, 0.0f},   {1.0f, 0.1f},   {1.0f, -0.1f},   {1.01f, 0.0f},  {1.01f, 0.1f},  {1.01f, -0.1f},
    {0.99f, 0.0f},  {0.99f, 0.1f},  {0.99f, -0.1f},  {1.005f, 0.0f}, {1.005f, 0.1f}, {1.005f, -0.1f},
    {0.995f, 0.0f}, {0.995f, 0.1f}, {0.995f, -0.1f}, {1.02f, -0.1f},
};

ALWAYS void search_q2_k(const float *x, const float *w, bool weighted, super *s)
{
    search_lines(16, 16, 3, 15, low_q2, high_q2, steps_sc, steps_mn, 3, x, w, weighted, s);
}

ALWAYS void search_q4_k(const float *x, const float *w, bool weighted, super *s)
{
    search_lines(8, 32, 15, 63, low_q4, high_q4, steps_sc, steps_mn, 1, x, w, weighted, s);
}

ALWAYS void search_q5_k(const float *x, const float *w, bool weighted, super *s)
{
    search_lines(8, 32, 31, 63, low_q5, high_q5, steps_sc, steps_mn, 1, x, w, weighted, s);
}

ALWAYS void search_q3_k(const float *x, const float *w, bool weighted, super *s)
{
    search_scales(16, 16, GRID_Q3, -32, 31, N_Q3, bases_q3, steps_one, 2, x, w, weighted, s);
}

ALWAYS void search_q6_k(const float *x, const float *w, bool weighted, super *s)
{
    search_scales(16, 16, GRID_Q6, -128, 127, N_Q6, bases_q6, steps_one, 2, x, w, weighted, s);
}

ALWAYS void search_iq4_xs(const float *x, const float *w, bool weighted, super *s)
{
    search_scales(8, 32, GRID_IQ4, -32, 31, N_IQ4, bases_iq4, steps_one, 2, x, w, weighted, s);
}
