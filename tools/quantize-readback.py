#!/usr/bin/env python3
"""Reads files that `floodmark quantize` wrote with the libraries whose layouts they follow, and decodes them a second time
by the text of docs/quantize.md alone. Both must agree with each other and with the error that floodmark reported.

Usage: quantize-readback.py FLOODMARK WORKDIR
Needs torch, numpy, safetensors, compressed-tensors, bitsandbytes, gguf."""
import json
import os
import subprocess
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def bits_of(rows, bits, n):
    """n codes a row from the little-endian bit stream in each row of bytes"""
    b = np.unpackbits(rows.view(np.uint8), axis=-1, bitorder="little")[:, : n * bits].reshape(rows.shape[0], n, bits)
    return (b.astype(np.int64) << np.arange(bits)).sum(-1)


def minifloat(code, e, m, bias):
    sign = np.where(code >> (e + m) & 1, -1.0, 1.0)
    exponent, fraction = code >> m & (1 << e) - 1, code & (1 << m) - 1
    normal = (1 + fraction / 2**m) * 2.0 ** (exponent.astype(float) - bias)
    return sign * np.where(exponent == 0, fraction * 2.0 ** (1 - bias - m), normal)


def spread(scale, shape, args):
    """one scale for each value"""
    rows, cols = shape
    s = scale.to(torch.float64).numpy()
    if args["strategy"] == "tensor":
        return np.full(shape, s.ravel()[0])
    if args["strategy"] == "block":
        r, c = args["block_structure"]
        return np.repeat(np.repeat(s, r, 0), c, 1)[:rows, :cols]
    return np.repeat(s, -(-cols // s.shape[1]), 1)[:, :cols]


def by_hand(t, name, args, fmt, shape):
    """compressed-tensors' layout, decoded from its description"""
    bits, (rows, cols) = args["num_bits"], shape
    scale = t[name + "_scale"]
    if fmt == "pack-quantized":
        code = bits_of(t[name + "_packed"].numpy(), bits, cols) - 2 ** (bits - 1)
        zero = 0
        if not args["symmetric"]:
            z = t[name + "_zero_point"].numpy()
            if z.dtype == np.int32:
                z = bits_of(np.ascontiguousarray(z.T), bits, rows).T - 2 ** (bits - 1)
            zero = spread(torch.tensor(np.ascontiguousarray(z)), shape, args)
        return (code - zero) * spread(scale, shape, args)
    if scale.dtype == torch.uint8:
        scale = torch.tensor(2.0 ** (scale.numpy().astype(np.float32) - 127))
    if name + "_packed" not in t:
        value = minifloat(t[name].view(torch.uint8).numpy().astype(np.int64), 4, 3, 7)
    elif bits == 4:
        value = np.array(E2M1 + [-v for v in E2M1])[bits_of(t[name + "_packed"].numpy(), 4, cols)]
    else:
        value = minifloat(bits_of(t[name + "_packed"].numpy(), 6, cols), 2, 3, 1)
    s = spread(scale, shape, args)
    return value * (s / float(t[name + "_global_scale"][0]) if name + "_global_scale" in t else s)


def by_compressed_tensors(t, name, args, fmt):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    local = {"weight" + k[len(name) :]: v for k, v in t.items() if k == name or k.startswith(name + "_")}
    return BaseCompressor.load_from_registry(fmt).decompress(local, scheme)["weight"].float().numpy()


def check(label, reference, hand, x, sqnr, tolerance):
    if reference is not None:
        off = np.abs(reference - hand).max() / np.abs(hand).max()
        assert off <= tolerance, f"{label}: the library and the description differ by {off}"
    err = ((hand - x) ** 2).sum(dtype=np.float64)
    got = 10 * np.log10((x.astype(np.float64) ** 2).sum() / err) if err else np.inf
    assert (sqnr is None and err == 0) or abs(got - sqnr) < 0.01, f"{label}: SQNR {got}, reported {sqnr}"
    print(f"{label:52} {got:7.2f} dB  {'read by the library' if reference is not None else 'by its description'}")


def quantize(tool, source, out, *args):
    run = [tool, "quantize", source, out, "--force", "--json", *args]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, " ".join(run) + ": " + done.stderr
    return {t["name"]: t for t in json.loads(done.stdout)["tensors"]}


def compressed(tool, work, source, x):
    cases = [
        "int4", "int4 --scheme asym", "int4 -g block:32 --scale bf16", "int3 -g row --scheme asym", "int8",
        "int8 -g tensor", "int8 --scheme asym", "int8 -g tensor --scheme asym", "int2", "int4 -c mse",
        "int5 -g block:64 --scheme sym:full", "int7 -c kl -g row", "int6 -c percentile:99 --scale fp16",
        "fp8_e4m3", "fp8_e4m3 -g tensor", "fp8_e4m3 -g tile:128x128", "mxfp8", "mxfp6", "mxfp4", "nvfp4",
    ]
    for case in cases:
        out = os.path.join(work, "out.safetensors")
        report = quantize(tool, source, out, "-f", *case.split())
        t = load_file(out)
        with safe_open(out, "pt") as f:
            config = json.loads(f.metadata()["quantization_config"])
        for group in config["config_groups"].values():
            args, fmt = group["weights"], group["format"]
            for module in group["targets"]:
                name = module + ".weight"
                hand = by_hand(t, name, args, fmt, x[name].shape)
                ref = by_compressed_tensors(t, name, args, fmt)
                # the library decodes the small float formats in bf16, and to the type of the scales
                exact = t[name + "_scale"].dtype == torch.float32
                check(f"{case} {module}", ref, hand, x[name], report[name]["sqnr_db"], 1e-6 if exact else 1e-2)


def bitsandbytes_files(tool, work, source, x):
    import bitsandbytes as bnb

    for case in ["nf4", "fp4", "nf4 --scale double", "fp4 --scale double -g flat:128"]:
        out = os.path.join(work, "out.safetensors")
        report = quantize(tool, source, out, "-f", *case.split())
        t = load_file(out)
        for name in [n for n, r in report.items() if not r["kept"]]:
            parts = {k[len(name) + 1 :]: v for k, v in t.items() if k.startswith(name + ".")}
            key = [k for k in parts if k.startswith("quant_state")][0]
            info = json.loads(bytes(parts[key].numpy()))
            packed = t[name].numpy().ravel()
            code = np.stack([packed >> 4, packed & 15], 1).ravel()[: x[name].size]
            absmax = parts["absmax"].numpy()
            if "nested_absmax" in parts:
                outer = np.repeat(parts["nested_absmax"].numpy(), 256)[: len(absmax)]
                absmax = parts["nested_quant_map"].numpy()[absmax] * outer + np.float32(info["nested_offset"])
            value = parts["quant_map"].numpy()[code] * np.repeat(absmax, info["blocksize"])[: code.size]
            state = bnb.functional.QuantState.from_dict(dict(parts), device=torch.device("cpu"))
            ref = bnb.functional.dequantize_4bit(t[name], state).float().numpy()
            check(f"{case} {name}", ref, value.reshape(x[name].shape), x[name], report[name]["sqnr_db"], 1e-6)


def own_layout(tool, work, source, x):
    floats = {"fp8_e4m3": (4, 3, 7), "fp8_e5m2": (5, 2, 15), "fp6_e2m3": (2, 3, 1), "fp6_e3m2": (3, 2, 3), "fp4_e2m1": (2, 1, 1)}
    cases = [
        "int4 -g column", "int6 -g block:50 --scheme asym", "int8 --scale e8m0", "mxfp6_e3m2", "fp8_e5m2",
        "nvfp4 --scale e4m3:multiply", "int4 -g flat:64 --scale double", "mxfp8_e5m2 --scale e8m0:mse",
    ]
    for case in cases:
        out = os.path.join(work, "out.safetensors")
        report = quantize(tool, source, out, "-f", *case.split())
        t = load_file(out)
        for name in [n for n, r in report.items() if r.get("layout") == "floodmark"]:
            info = json.loads(bytes(t[name + ".fm_scheme"].numpy()))
            rows, cols = x[name].shape
            n = rows * cols if info["granularity"] == "flat" else cols
            code = bits_of(np.atleast_2d(t[name + ".fm_codes"].numpy()), info["bits"], n)
            if info["grid"].startswith("int"):
                value = code - (0 if info["asymmetric"] else 2 ** (info["bits"] - 1))
            else:
                value = minifloat(code, *floats[info["grid"]])
            scale, s = t[name + ".fm_scale"], None
            if info["scale"] == "e8m0":
                s = 2.0 ** (scale.numpy().astype(np.float64) - 127)
            elif info["scale"] == "double":
                from bitsandbytes.functional import create_dynamic_map

                outer = np.repeat(t[name + ".fm_scale2"].numpy(), 256)[None, : scale.numel()]
                s = create_dynamic_map().numpy()[scale.numpy()] * outer + t[name + ".fm_offset"].numpy()
            else:
                s = scale.to(torch.float64).numpy()
            if info["scale"] == "e4m3":
                g = float(t[name + ".fm_global"][0])
                s = s * g if info["global"] == "multiply" else s / g
            width = 1 if info["granularity"] == "column" else info["block_cols"] or n
            if info["asymmetric"]:
                value = value - np.repeat(t[name + ".fm_zero"].numpy().astype(int), width, 1)[:, :n]
            hand = (value * np.repeat(s, width, 1)[:, :n]).reshape(rows, cols)
            check(f"{case} {name}", None, hand, x[name], report[name]["sqnr_db"], 0)


def gguf_files(tool, work, source, x):
    import gguf

    names = "q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 fp16 bf16 fp32"
    for fmt in names.split():
        out = os.path.join(work, "out.gguf")
        report = quantize(tool, source, out, "-f", fmt)
        for t in gguf.GGUFReader(out).tensors:
            try:
                value = gguf.quants.dequantize(t.data, t.tensor_type).reshape(x[t.name].shape)
            except NotImplementedError:
                print(f"{fmt}: the gguf package does not decode it")
                break
            if report[t.name]["kept"]:
                assert (value == x[t.name]).all()
            else:
                check(f"{fmt} ({report[t.name]['format']}) {t.name}", value, value, x[t.name], report[t.name]["sqnr_db"], 0)


def main():
    tool, work = sys.argv[1:]
    os.makedirs(work, exist_ok=True)
    g = torch.Generator().manual_seed(5)
    model = {
        "a.weight": torch.randn(96, 512, generator=g) * 0.02,
        "b.weight": torch.randn(130, 256, generator=g),
        "norm.weight": torch.ones(512),
        "a.bias": torch.randn(96, generator=g),
    }
    model["b.weight"][:, 7] *= 30
    ragged = dict(model, **{"c.weight": torch.randn(70, 100, generator=g)})
    x = {k: v.numpy() for k, v in ragged.items()}
    even, uneven = os.path.join(work, "even.safetensors"), os.path.join(work, "uneven.safetensors")
    save_file(model, even, {"format": "pt"})
    save_file(ragged, uneven, {"format": "pt"})
    compressed(tool, work, even, x)
    bitsandbytes_files(tool, work, uneven, x)
    own_layout(tool, work, uneven, x)
    gguf_files(tool, work, uneven, x)
    print("all read back")


main()
