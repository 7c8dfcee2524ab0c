#include <string.h>
#include "floodmark/tree.h"

enum { LONGEST = 63 }; // of a word worth guessing at

static char folded(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '-' ? '_' : c;
}

// Edits between a and b (optimal string alignment: insert, delete, replace, swap of neighbours).
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            char x = folded(a[i - 1]), y = folded(b[j - 1]);
            size_t best = above[j - 1] + (x != y);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}

const char *fm_nearest(const char *word, const char *const *list, size_t n)
{
    size_t length = strlen(word), least = length / 3 + 1;
    const char *found = NULL;
    if (length > LONGEST)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(list[i]), longer = other > length ? other : length;
        if (other > LONGEST || longer - (other < length ? other : length) >= least)
            continue;
        size_t edits = distance(word, length, list[i], other);
        if (edits < least) {
            least = edits;
            found = list[i];
        }
    }
    return found;
}
