#!/usr/bin/env python3
"""Quantizes one GGUF model with floodmark and with llama.cpp and holds the files against each other: the type chosen for
each tensor, bytes, squared error, size, and perplexity on one fixed text, all by the same llama.cpp.

Usage: quantize-llama.py FLOODMARK WORKDIR MODEL.gguf TEXT [model|wide] [FORMAT...]
    MODEL is widened to bf16 first, and a second model, whose rows are multiples of 256, is made from its values.
    Prints Markdown tables, of both models or of one. llama.cpp's pure files know no fallback for rows that do not divide by
    256 (its library stops the process): there, a format is held against the mix that is nearest (q2_k, q3_k_s, ...).
    The exit status is 1 where types differ, or bytes of the formats that have one right answer.
Needs cyllama (llama.cpp's library with its quantizer), gguf, numpy.

       quantize-llama.py --llama-quantize IN OUT TYPE [THREADS]
    does what llama.cpp's own llama-quantize does, for bench_end_to_end."""
import json
import math
import os
import subprocess
import sys

# llama_ftype of llama.h; and whether the name stands for one type for every matrix, as llama-quantize has it with --pure,
# rather than for a mix.
FORMATS = {
    "q8_0": (7, True), "q4_0": (2, True), "q4_1": (3, True), "q5_0": (8, True), "q5_1": (9, True),
    "iq4_nl": (25, True), "q2_k": (10, True), "q3_k": (11, True), "q4_k": (14, True), "q5_k": (16, True),
    "iq4_xs": (30, True), "q6_k": (18, False), "q3_k_m": (12, False), "q4_k_s": (14, False), "q4_k_m": (15, False),
    "q5_k_m": (17, False),
}  # fmt: skip
SUPER = {"q2_k", "q3_k", "q4_k", "q5_k", "iq4_xs"}  # blocks of 256
# What the mixes of llama.cpp give another type than the base; all else must be of ours even where the mix is compared.
MIXED = ("token_embd", "output.weight", "attn_v", "attn_output", "ffn_down")
EXACT = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F32", "F16", "BF16"}  # others follow compiler flags in ggml
CONTEXT, SKIP = 1024, 32  # tokens; the first ones are read but not scored


def llama():
    import cyllama.llama.llama_cpp as library

    library.disable_logging()
    return library


def by_llama(source, out, file_type, pure, threads):
    library = llama()
    p = library.LlamaModelQuantizeParams()
    p.ftype, p.pure, p.nthread = file_type, pure, threads
    library.model_quantize(source, out, p)


def as_llama_quantize(args):
    if len(args) not in (3, 4) or args[2].lower() not in FORMATS:
        llama()  # what starting costs can be measured so
        sys.exit("usage: quantize-llama.py --llama-quantize IN OUT TYPE [THREADS]")
    by_llama(args[0], args[1], FORMATS[args[2].lower()][0], False, int(args[3]) if len(args) == 4 else 1)


def perplexity(path, text):
    import numpy as np

    library = llama()

    class Model(library.LlamaModel):
        @property
        def n_vocab(self):
            return self.get_vocab().n_vocab

    model = Model(path)
    p = library.LlamaContextParams()
    p.n_ctx = p.n_batch = p.n_ubatch = CONTEXT
    p.n_threads = p.n_threads_batch = 2
    context = library.LlamaContext(model, p)
    tokens = model.get_vocab().tokenize(text, True, False)[:CONTEXT]
    batch = library.LlamaBatch(n_tokens=CONTEXT, embd=0, n_seq_max=1)
    batch.set_batch(tokens, n_past=0, logits_all=True)
    context.decode(batch)
    total = 0.0
    for i in range(SKIP, len(tokens) - 1):
        x = np.array(context.get_logits_ith(i), np.float64)
        total += math.log(np.exp(x - x.max()).sum()) + x.max() - x[tokens[i + 1]]
    return math.exp(total / (len(tokens) - 1 - SKIP)), len(tokens) - 1 - SKIP


def perplexity_apart(path, text_path):
    """in a process of its own: memory goes back, and one crash is one figure"""
    r = subprocess.run([sys.executable, __file__, "--perplexity", path, text_path], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"perplexity of {path}: {r.stderr.strip()[-300:]}")
    return json.loads(r.stdout.strip().splitlines()[-1])


def tensors(path):
    import gguf

    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def values(t):
    import gguf
    import numpy as np

    return gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).ravel()


def squared_error(t, exact):
    import numpy as np

    d = (values(t) - exact).astype(np.float64)
    return float(d @ d)


def hold(ours, theirs, source):
    """both files tensor by tensor"""
    a, b, s = tensors(ours), tensors(theirs), tensors(source)
    r = {"names": sorted(a) == sorted(b), "types": [], "bytes": [], "same": True, "counts": {}, "worst": (0.0, "")}
    r["sq"] = [0.0, 0.0]
    n = 0
    for name in sorted(set(a) & set(b)):
        x, y = a[name], b[name]
        kind = x.tensor_type.name
        if s[name].n_elements == s[name].shape[0]:
            continue
        r["counts"][kind] = r["counts"].get(kind, 0) + 1
        if x.tensor_type != y.tensor_type:
            r["types"].append(f"{name}: {kind} here, {y.tensor_type.name} there")
            r["same"] = False
            continue
        exact = values(s[name])
        n += exact.size
        if x.data.tobytes() == y.data.tobytes():
            e = squared_error(x, exact)
            both = e, e
        else:
            r["same"] = False
            if kind in EXACT:
                r["bytes"].append(f"{name}: {kind}")
            both = squared_error(x, exact), squared_error(y, exact)
            if both[1]:
                r["worst"] = max(r["worst"], (math.sqrt(both[0] / both[1]), name))
        r["sq"][0] += both[0]
        r["sq"][1] += both[1]
    r["rmse"] = [math.sqrt(q / max(n, 1)) for q in r["sq"]]
    return r


def wide_model(path, source, hidden=768, layers=4):
    """a Llama of rows of 768 and 2048, filled with the source's weights in their order, in F16"""
    import gguf
    import numpy as np

    s = tensors(source)
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(layers)
    w.add_context_length(1024)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(2048)
    w.add_head_count(hidden // 64)
    w.add_head_count_kv(hidden // 64)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(64)

    def fill(kind, layer, shape):
        pool = np.concatenate([values(s[f"blk.{(layer * 7 + i) % 30}.{kind}.weight"]) for i in range(8)])
        w.add_tensor(f"blk.{layer}.{kind}.weight", np.resize(pool, shape).astype(np.float16))

    w.add_tensor("token_embd.weight", np.resize(values(s["token_embd.weight"]), (4096, hidden)).astype(np.float16))
    w.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    for i in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{i}.{norm}.weight", np.ones(hidden, np.float32))
        for kind in ("attn_q", "attn_k", "attn_v", "attn_output"):
            fill(kind, i, (hidden, hidden))
        for kind in ("ffn_gate", "ffn_up"):
            fill(kind, i, (2048, hidden))
        fill("ffn_down", i, (hidden, 2048))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def say(text):
    print(text, flush=True)


def both(floodmark, work, name, model, pure, wrong):
    """quantizes with either; the paths, and what hold() found"""
    ours, theirs = (os.path.join(work, f"{os.path.basename(model)}-{who}-{name}.gguf") for who in ("ours", "theirs"))
    subprocess.run([floodmark, "quantize", model, ours, "--format", name, "--force"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    by_llama(model, theirs, FORMATS[name][0], pure, 2)
    r = hold(ours, theirs, model)
    by_design = [] if pure or not FORMATS[name][1] else [t for t in r["types"] if any(m in t for m in MIXED)]
    wrong.extend(f"{name}: type of {one}" for one in r["types"] if one not in by_design)
    wrong.extend(f"{name}: bytes of {one}" for one in r["bytes"])
    if not r["names"]:
        wrong.append(f"{name}: the files name different tensors")
    return ours, theirs, r


def types_of(r):
    return ", ".join(f"{n} {k.lower()}" for k, n in sorted(r["counts"].items(), key=lambda i: -i[1]))


def ratios(r):
    if not r["worst"][1]:
        return "same bytes | "
    return f"{r['rmse'][0] / r['rmse'][1]:.4f} | {r['worst'][0]:.4f} {r['worst'][1].removesuffix('.weight')}"


def compare_model(floodmark, work, source, text_path, formats, wrong):
    base, scored = perplexity_apart(source, text_path)
    say(f"perplexity of {scored} tokens; bf16: {base:.3f}, {os.path.getsize(source) / 2**20:.1f} MiB\n")
    say("| format | matrices here | of another type there | MiB | there | perplexity | there | "
        "rmse / there, same types | worst tensor |")  # fmt: skip
    say("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in formats:
        pure = FORMATS[name][1] and name not in SUPER
        ours, theirs, r = both(floodmark, work, name, source, pure, wrong)
        p = perplexity_apart(ours, text_path)[0]
        q = p if r["same"] else perplexity_apart(theirs, text_path)[0]
        other = f"{len(r['types'])} (a mix)" if FORMATS[name][1] and not pure else len(r["types"])
        say(f"| {name} | {types_of(r)} | {other} | {os.path.getsize(ours) / 2**20:.1f} | "
            f"{os.path.getsize(theirs) / 2**20:.1f} | {p:.3f} | {q:.3f} | {ratios(r)} |")  # fmt: skip
        os.remove(ours)
        os.remove(theirs)


def compare_wide(floodmark, work, source, formats, wrong):
    wide = os.path.join(work, "wide.gguf")
    wide_model(wide, source)
    say("| format | matrices here | of another type there | rmse | there | rmse / there | worst tensor |")
    say("| --- | --- | --- | --- | --- | --- | --- |")
    for name in formats:
        ours, theirs, r = both(floodmark, work, name, wide, FORMATS[name][1], wrong)
        say(f"| {name} | {types_of(r)} | {len(r['types'])} | {r['rmse'][0]:.7f} | {r['rmse'][1]:.7f} | {ratios(r)} |")
        os.remove(ours)
        os.remove(theirs)


def main():
    if sys.argv[1:2] == ["--llama-quantize"]:
        as_llama_quantize(sys.argv[2:])
        return
    if len(sys.argv) == 4 and sys.argv[1] == "--perplexity":
        with open(sys.argv[3], encoding="utf-8") as f:
            print(json.dumps(perplexity(sys.argv[2], f.read())))
        return
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    floodmark, work, model, text, *rest = sys.argv[1:]
    only = rest.pop(0) if rest and rest[0] in ("model", "wide") else None
    if any(name not in FORMATS for name in rest):
        sys.exit(f"the formats are {' '.join(FORMATS)}")
    source, wrong = os.path.join(work, f"source-bf16-{os.getpid()}.gguf"), []
    subprocess.run([floodmark, "quantize", model, source, "--format", "bf16", "--force"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    library = llama()
    say(f"llama.cpp {library.ggml_commit()}, ggml {library.ggml_version()} (cyllama)\n")
    if only != "wide":
        compare_model(floodmark, work, source, text, rest or list(FORMATS), wrong)
        say("")
    if only != "model":
        compare_wide(floodmark, work, source, rest or list(FORMATS), wrong)
    os.remove(source)
    for one in wrong:
        say(f"differs: {one}")
    sys.exit(1 if wrong else 0)


main()
