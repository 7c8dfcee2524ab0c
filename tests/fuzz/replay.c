// Runs a fuzzer's function on files and folders of files, without libFuzzer: what was found once stays found, with
// every compiler.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long n_inputs;

static int replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1); // exactly as large: a sanitizer sees one byte too far
    if (!f || !data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "%s: not there\n", path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);
    DIR *d = opendir(path);
    int failed = d == NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char below[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        failed |= replay(below);
    }
    if (d)
        closedir(d);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    printf("%lu inputs\n", n_inputs);
    return failed;
}
