// A machine: nodes of equal GPUs, their memory, links and host.
//
// Written `2x8xH100-80GB` (nodes x GPUs a node x name), `8xH100-80GB` (one node), `H100-80GB` (one GPU), or the path of a
// JSON file. GPU names come from the shipped catalogue (data/gpus, compiled in; each row names its sources there).
// `cpu` is a pseudo GPU: ranks on this host, sharing its memory.
//
// Ownership: no pointers; copy by value. Threads: pure functions; the catalogue is constant.
#ifndef FLOODMARK_MACHINE_H
#define FLOODMARK_MACHINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FM_GPU_NAME_BYTES = 48, FM_GPU_SOURCE_BYTES = 256 };

typedef enum { FM_VENDOR_NVIDIA, FM_VENDOR_AMD, FM_VENDOR_CPU, FM_VENDOR_OTHER } fm_vendor;

// Number types of the peak rates (dense, no sparsity, multiply and add counted as two).
typedef enum {
    FM_RATE_FP32, // without tensor cores
    FM_RATE_TF32,
    FM_RATE_FP16,
    FM_RATE_BF16,
    FM_RATE_FP8,
    FM_RATE_INT8,
    FM_RATE_FP4,
    FM_N_RATES
} fm_rate;

// One kind of GPU. Rates and bandwidths of 0 mean: the hardware has no such thing, or nobody states it.
typedef struct {
    char name[FM_GPU_NAME_BYTES];
    fm_vendor vendor;
    uint64_t memory_bytes;        // what the framework sees: torch.cuda.get_device_properties().total_memory
    bool memory_measured;         // seen in a published log (the row's source); else nominal less a stated share
    uint32_t capability;          // CUDA compute capability x 10 (90 = 9.0); 0 if it has none
    uint32_t n_sms;               // multiprocessors (AMD: compute units)
    double memory_bytes_per_s;    // to its own memory
    double flops[FM_N_RATES];     // peak, per second
    double link_bytes_per_s;      // NVLink or Infinity Fabric, sum of one direction; 0: none
    double host_link_bytes_per_s; // PCIe or NVLink-C2C, one direction
    double network_bytes_per_s;   // between nodes, its share of one direction in the usual servers of this GPU
    char source[FM_GPU_SOURCE_BYTES];
} fm_gpu;

typedef struct fm_machine {
    char text[FM_GPU_NAME_BYTES + 32]; // canonical spelling, "2x8xH100-80GB"
    int64_t nodes, gpus_per_node, world;
    fm_gpu gpu;
    double intra_bytes_per_s; // between GPUs of one node, one direction per GPU: link, or PCIe where there is none
    double inter_bytes_per_s; // between nodes, one direction per GPU
    uint64_t host_bytes;      // memory of one node's host
    bool host_stated;         // false: the default, 2 x the memory of the node's GPUs, at least 64 GiB
} fm_machine;

// Parses a machine's spelling or, if the text ends in ".json" or names an existing file, reads that file. Fails with
// FM_ERR_VALUE (counts) or FM_ERR_NOT_FOUND (unknown GPU, with the nearest name).
fm_status fm_machine_parse(const char *text, fm_machine *machine, fm_err *err) FM_MUST_USE;

// Reads a machine file: an object with `gpu` (a catalogue name, or an object: `name`, `like` (a catalogue name whose
// values are the defaults), `memory_bytes`, `capability`, `n_sms`, `vendor`, `memory_bytes_per_s`, `flops` {type: rate},
// `link_bytes_per_s`, `host_link_bytes_per_s`, `network_bytes_per_s`, `source`), and `nodes` (1), `gpus_per_node` (1),
// `intra_bytes_per_s`, `inter_bytes_per_s`, `host_bytes`. Bytes are integers or text such as "80GB". Unknown keys are
// refused with the nearest one; messages name file and line.
fm_status fm_machine_read(const char *path, fm_machine *machine, fm_err *err) FM_MUST_USE;

// A machine of `nodes` x `gpus_per_node` of a GPU of the catalogue or of one's own.
fm_status fm_machine_make(int64_t nodes, int64_t gpus_per_node, const fm_gpu *gpu, fm_machine *machine,
                          fm_err *err) FM_MUST_USE;

// The catalogue: number of rows, one row, a row by name (upper and lower case are equal; NULL when unknown).
size_t fm_gpu_count(void);
const fm_gpu *fm_gpu_at(size_t index);
const fm_gpu *fm_gpu_find(const char *name);

// Several rows can begin with a shorter name: "H200" alone is H200-141GB (fm_machine_parse takes it), "A100" is not one.

// "nvidia", "amd", "cpu", "other"; "fp32", "tf32", ...
const char *fm_vendor_text(fm_vendor vendor);
const char *fm_rate_text(fm_rate rate);

#ifdef __cplusplus
}
#endif
#endif
