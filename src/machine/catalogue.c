// The shipped catalogue as one constant table: nothing is read or parsed when a plan starts.
#include "floodmark/machine.h"
#include <strings.h>

#define GPU(name_, vendor_, mib, measured, capability_, sms, memory_gb, fp32, tf32, fp16, bf16, fp8, int8, fp4, link, \
            host_link, network, source_)                                                                              \
    {.name = name_,                                                                                                   \
     .vendor = FM_VENDOR_##vendor_,                                                                                   \
     .memory_bytes = (uint64_t)(mib) << 20,                                                                           \
     .memory_measured = measured,                                                                                     \
     .capability = capability_,                                                                                       \
     .n_sms = sms,                                                                                                    \
     .memory_bytes_per_s = (memory_gb)*1e9,                                                                           \
     .flops = {(fp32)*1e12, (tf32)*1e12, (fp16)*1e12, (bf16)*1e12, (fp8)*1e12, (int8)*1e12, (fp4)*1e12},              \
     .link_bytes_per_s = (link)*1e9,                                                                                  \
     .host_link_bytes_per_s = (host_link)*1e9,                                                                        \
     .network_bytes_per_s = (network)*1e9,                                                                            \
     .source = source_},

static const fm_gpu gpus[] = {
#include "../../data/gpus/gpus.inc"
};

size_t fm_gpu_count(void)
{
    return sizeof gpus / sizeof gpus[0];
}

const fm_gpu *fm_gpu_at(size_t index)
{
    return index < fm_gpu_count() ? &gpus[index] : NULL;
}

const fm_gpu *fm_gpu_find(const char *name)
{
    for (size_t i = 0; i < fm_gpu_count(); i++)
        if (!strcasecmp(gpus[i].name, name))
            return &gpus[i];
    return NULL;
}

const char *fm_vendor_text(fm_vendor vendor)
{
    static const char *const text[] = {"nvidia", "amd", "cpu", "other"};
    return (unsigned)vendor < sizeof text / sizeof text[0] ? text[vendor] : "other";
}

const char *fm_rate_text(fm_rate rate)
{
    static const char *const text[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"};
    _Static_assert(sizeof text / sizeof text[0] == FM_N_RATES, "a word for every rate");
    return (unsigned)rate < FM_N_RATES ? text[rate] : "";
}
