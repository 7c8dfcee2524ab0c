// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3.
#include "floodmark/number.h"
#include "number/philox.h"

uint32_t fm_random_u32(uint64_t seed, uint64_t index)
{
    uint32_t word[4];
    fm_philox_block(seed, index / 4, word);
    return word[index % 4];
}
