#include "testing.h"
int main(void)
{
    return 0;
}
