#!/usr/bin/env python3
"""Peak allocated bytes, phase by phase, of real training steps: real tensors, real allocator.

cuda: torch.cuda.max_memory_allocated of each phase. cpu: the profiler's memory events of the CPU allocator, each
rounded up to 512 B as the CUDA caching allocator would (the same autograd engine and the same composite operations; not the
kernels' own scratch of a GPU).

usage: measure.py --models DIR --out FILE.jsonl [--device cuda|cpu] [--cases gpu|cpu] [--only REGEX] [--budget SECONDS]
One JSON line a case, flushed; a failing case is a line with "error".
"""
import argparse, contextlib, gc, json, os, re, sys, time, warnings
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
import torch.nn.functional as F

def r512(n): return (n + 511) & ~511

# ------------------------------------------------------------------ meters
class CudaMeter:
    def __init__(self): self.peaks = {}; self.ends = {}; self.now = None
    def start(self):
        torch.cuda.synchronize(); self.mark("init")
    def close(self):
        if self.now is None: return
        p = torch.cuda.max_memory_allocated()
        self.peaks[self.now] = max(self.peaks.get(self.now, 0), p); self.ends[self.now] = torch.cuda.memory_allocated()
        self.reserved[self.now] = max(self.reserved.get(self.now, 0), torch.cuda.max_memory_reserved())
    reserved = {}
    def mark(self, name):
        self.close(); self.now = name
        torch.cuda.reset_peak_memory_stats()
    def stop(self): self.close(); self.now = None

class CpuMeter:
    """Everything that the CPU allocator does between start() and stop(), with marks in between."""
    def __init__(self): self.peaks = {}; self.ends = {}; self.names = []; self.reserved = {}
    def start(self, base=0):
        self.base = base
        self.prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self.prof.__enter__(); self.mark("init")
    def mark(self, name):
        self.names.append(name)
        with torch.profiler.record_function(f"MARK:{len(self.names) - 1}"): pass
    def stop(self):
        self.prof.__exit__(None, None, None)
        ev = []
        for e in self.prof.profiler.kineto_results.events():
            n = e.name()
            if n == "[memory]": ev.append((e.start_ns(), 1, e.nbytes()))
            elif n.startswith("MARK:"): ev.append((e.start_ns(), 0, int(n[5:])))
        ev.sort(key=lambda x: x[0])
        level = self.base; now = None
        for _, kind, v in ev:
            if kind == 0:
                if now is not None: self.ends[now] = level
                now = self.names[v]; self.peaks[now] = max(self.peaks.get(now, 0), level); continue
            level += r512(v) if v > 0 else -r512(-v)
            if now is not None and level > self.peaks[now]: self.peaks[now] = level
        if now is not None: self.ends[now] = level

# ------------------------------------------------------------------- cases
TL, L1, Q05, GPT2, S135 = "TinyLlama--TinyLlama-1.1B", "meta-llama--Llama-3.2-1B", "Qwen--Qwen2.5-0.5B", "openai-community--gpt2", "HuggingFaceTB--SmolLM2-135M"
GEM, Q3, PYT, MIX, Q3M = "google--gemma-2b", "Qwen--Qwen3-0.6B", "EleutherAI--pythia-70m", "mistralai--Mixtral-8x7B-Instruct-v0.1", "Qwen--Qwen3-30B-A3B"
PHI, MIS = "microsoft--phi-1_5", "mistralai--Mistral-7B-v0.1"
BASE = dict(model=TL, layers=0, engine="single", mp="bf16", ac="none", opt="foreach", attn="sdpa", B=1, S=2048, accum=1, clip=0, loss="full", trace=0)

def gpu_cases():
    out = []
    def add(**k): out.append({**BASE, **k})
    add(model=TL, layers=6, trace=1)
    add(model=TL, layers=6, ac="full", opt="fused")
    add(model=TL, layers=6, attn="eager", trace=1)
    add(model=TL, layers=6, mp="amp", clip=1)
    add(model=TL, layers=6, mp="fp32", S=1024, trace=1)
    for e in ("ddp", "fsdp1", "fsdp2"): add(model=TL, layers=6, engine=e)
    add(model=TL, layers=6, engine="ddp", mp="amp"); add(model=TL, layers=6, engine="fsdp1", mp="p16r32"); add(model=TL, layers=6, engine="fsdp2", mp="p16r32", ac="full", clip=1)
    add(model=TL, layers=6, B=2, S=8192, ac="full"); add(model=TL, layers=6, S=8192, opt="loop"); add(model=TL, layers=6, accum=2, clip=1)
    add(model=L1); add(model=L1, mp="amp", ac="full", opt="fused"); add(model=L1, B=2, S=2048, clip=1)
    add(model=Q05); add(model=Q05, mp="amp", clip=1); add(model=Q05, attn="eager", S=512, B=2)
    add(model=GPT2, S=1024); add(model=GPT2, S=1024, mp="amp", B=2, clip=1, trace=1); add(model=GPT2, S=512, mp="fp32", attn="eager"); add(model=GPT2, S=1024, ac="full", opt="loop")
    add(model=S135, trace=1); add(model=S135, mp="fp32", B=2, S=512); add(model=S135, mp="amp", accum=2, opt="fused"); add(model=S135, engine="fsdp2", mp="p16r32", B=2)
    add(model=GEM, layers=6); add(model=GEM, layers=6, mp="fp32", S=512, ac="full")
    add(model=Q3); add(model=Q3, mp="amp", ac="full", S=8192)
    add(model=PYT); add(model=PYT, mp="fp32", B=2, S=2048, trace=1); add(model=PYT, attn="eager", mp="amp", S=512, clip=1)
    add(model=MIX, layers=2, S=512); add(model=Q3M, layers=2, S=2048, ac="full")
    add(model=PHI, layers=8); add(model=PHI, layers=8, mp="amp", ac="full", B=2)
    add(model=MIS, layers=2, S=8192, ac="full"); add(model=MIS, layers=2, S=2048, clip=1)
    return out

def cpu_cases():
    """For small configurations: eager attention (CPU's sdpa is another kernel), fused steps (counters on the device, as on a GPU)."""
    out = []
    def add(**k): out.append({**BASE, "mp": "fp32", "attn": "eager", "opt": "fused", "S": 128, **k})
    for m in (TL, S135, Q05, Q3, PYT, PHI, GPT2, GEM, MIS, Q3M):
        add(model=m); add(model=m, ac="full", B=2, S=96); add(model=m, accum=2); add(model=m, mp="bf16"); add(model=m, mp="amp", B=2)
    for m in (TL, S135, GPT2): add(model=m, clip=1); add(model=m, opt="foreach"); add(model=m, opt="loop"); add(model=m, ac="full", accum=3, mp="amp")
    for e in ("ddp", "fsdp2"):
        for mp in ("fp32", "bf16"): add(model=TL, engine=e, mp=mp); add(model=S135, engine=e, mp=mp, ac="full")
    add(model=S135, engine="fsdp2", mp="p16r32"); add(model=TL, engine="fsdp2", mp="p16r32", accum=2)
    return out

def cid(c):
    return "-".join([c["model"].split("--")[1], f"L{c['layers'] or 'all'}", c["engine"], c["mp"], f"ac_{c['ac']}", c["opt"], c["attn"], f"ga{c['accum']}", f"clip{c['clip']}", f"b{c['B']}s{c['S']}"])

def load_config(models, c):
    from transformers import AutoConfig
    d = json.load(open(os.path.join(models, c["model"] + ".json")))
    mt = d.pop("model_type")
    for k in ("torch_dtype", "_name_or_path", "architectures"): d.pop(k, None)
    lk = "n_layer" if mt == "gpt2" else "num_hidden_layers"
    if c["layers"]: d[lk] = min(c["layers"], d[lk])
    cfg = AutoConfig.for_model(mt, **d)
    cfg._attn_implementation = c["attn"]; cfg.use_cache = False
    return cfg

def blocks_of(model):
    for path in ("model.layers", "transformer.h", "gpt_neox.layers"):
        o = model
        try:
            for p in path.split("."): o = getattr(o, p)
            return list(o)
        except AttributeError: pass
    raise RuntimeError("no blocks")

def run_case(c, models, dev):
    from transformers import AutoModelForCausalLM
    t0 = time.time(); cuda = dev == "cuda"
    cfg = load_config(models, c)
    if cuda:
        gc.collect(); torch._C._cuda_clearCublasWorkspaces(); torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated() if cuda else 0
    pdt = torch.bfloat16 if c["mp"] == "bf16" else torch.float32
    with torch.device(dev): model = AutoModelForCausalLM.from_config(cfg, dtype=pdt)
    model.train()
    if cfg.tie_word_embeddings: model.tie_weights()
    drop = max(float(getattr(cfg, k, 0.0) or 0.0) for k in ("resid_pdrop", "attn_pdrop", "hidden_dropout", "attention_dropout"))
    M = CudaMeter() if cuda else CpuMeter(); M.reserved = {}
    step = [1]
    def mark(n): M.mark(n + ("" if step[0] == 1 else "2"))
    olf = model.loss_function
    def lf(*a, **k): mark("loss"); return olf(*a, **k)
    model.loss_function = lf
    if c["ac"] == "full": model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False, preserve_rng_state=drop > 0))
    blocks = blocks_of(model); run = model
    if c["engine"] != "single":
        if not dist.is_initialized(): dist.init_process_group("nccl" if cuda else "gloo", store=dist.HashStore(), rank=0, world_size=1)
        if c["engine"] == "fsdp2":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
            mesh = init_device_mesh(dev, (1,))
            mpp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if c["mp"] == "p16r32" else MixedPrecisionPolicy()
            for b in blocks: fully_shard(b, mesh=mesh, mp_policy=mpp, reshard_after_forward=True)
            fully_shard(model, mesh=mesh, mp_policy=mpp)
        elif c["engine"] == "fsdp1":
            from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy
            from torch.distributed.fsdp.wrap import ModuleWrapPolicy
            mp = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if c["mp"] == "p16r32" else None
            run = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({type(blocks[0])}), mixed_precision=mp, use_orig_params=True,
                       device_id=torch.device("cuda", 0) if cuda else None, sharding_strategy=ShardingStrategy.FULL_SHARD, limit_all_gathers=True)
        else:
            run = torch.nn.parallel.DistributedDataParallel(model)
    b = None; gc.collect()
    ps = list(run.parameters())
    kw = dict(foreach=dict(foreach=True), fused=dict(fused=True), loop=dict(foreach=False))[c["opt"]]
    opt = torch.optim.AdamW(ps, lr=1e-4, weight_decay=0.1, **kw)
    def local(p): return getattr(p, "_local_tensor", p)
    seen = {}
    for t in list(ps) + list(model.buffers()): s = local(t).untyped_storage(); seen[s._cdata] = r512(s.nbytes())
    states = sum(seen.values())
    amp = (lambda: torch.autocast(dev, dtype=torch.bfloat16)) if c["mp"] == "amp" else contextlib.nullcontext
    src = torch.randint(0, cfg.vocab_size, (c["B"], c["S"]))
    trace = cuda and c["trace"]
    if trace: torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=200000)
    M.start(states) if not cuda else M.start()
    marks = []
    for s in (1, 2):
        step[0] = s
        for mb in range(c["accum"]):
            mark("forward")
            ids = torch.empty((c["B"], c["S"]), dtype=torch.long, device=dev); labels = torch.empty((c["B"], c["S"]), dtype=torch.long, device=dev)
            ids.copy_(src); labels.copy_(src)
            with amp(): out = run(input_ids=ids, labels=labels, use_cache=False)
            loss = out["loss"]; out = None
            if c["accum"] > 1: loss = loss / c["accum"]
            mark("backward"); loss.backward()
            mark("post"); del loss, ids, labels
        if c["clip"]:
            mark("clip")
            if c["engine"] == "fsdp1": run.clip_grad_norm_(1.0)
            else: torch.nn.utils.clip_grad_norm_(ps, 1.0, foreach=True)
        mark("optimizer"); opt.step()
        mark("zero"); opt.zero_grad(set_to_none=True)
    if cuda: torch.cuda.synchronize()
    M.stop()
    row = dict(id=cid(c), case=c, peaks=M.peaks, ends=M.ends, states=states, torch=torch.__version__, n_params=sum(local(p).numel() for p in ps), dropout=drop)
    import transformers; row["transformers"] = transformers.__version__
    if trace:
        snap = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None)
        row["trace"] = [[e["action"], e["size"], e["stream"] and 1] for e in snap["device_traces"][0] if e["action"] in ("alloc", "free_requested", "free_completed", "segment_alloc")][:60000]
    if cuda:
        free, total = torch.cuda.mem_get_info()
        row.update(before=before, reserved=M.reserved, reserved_now=torch.cuda.memory_reserved(), device_used=total - free, context=total - free - torch.cuda.memory_reserved())
    del model, run, opt, ps, M, out, olf, lf, blocks
    p = t = s = None; seen = None
    gc.collect()
    if cuda:
        row["left"] = torch.cuda.memory_allocated()               # library workspaces, if nothing leaks
        torch._C._cuda_clearCublasWorkspaces(); row["left_cleared"] = torch.cuda.memory_allocated()
    row["secs"] = round(time.time() - t0, 2)
    return row

def warm_up(f):
    """Which library takes what: allocated before and after first uses, and what each attention kernel takes."""
    dev = "cuda"; A = torch.cuda.memory_allocated; row = dict(id="warm-up", torch=torch.__version__, gpu=torch.cuda.get_device_name(), capability=torch.cuda.get_device_capability(), cudnn=torch.backends.cudnn.version())
    x = torch.ones(512, 512, device=dev, dtype=torch.bfloat16); a0 = A(); y = x @ x; row["first_product"] = A() - a0
    b = torch.ones(512, device=dev, dtype=torch.bfloat16); a0 = A(); z = torch.addmm(b, x, x); row["first_addmm_beyond_result"] = A() - a0
    w = x.clone().requires_grad_(True); a0 = A(); (w @ x).sum().backward(); row["first_backward_beyond_grad"] = A() - a0 - w.grad.numel() * 2
    from torch.nn.attention import sdpa_kernel, SDPBackend as SB
    row["attention"] = []
    for dt in (torch.bfloat16, torch.float32):
        for (B, H, HK, S, D) in ((1, 32, 32, 2048, 64), (1, 32, 4, 2048, 64), (2, 8, 8, 1024, 128), (1, 8, 1, 1024, 256), (1, 9, 3, 2048, 64), (1, 32, 32, 8192, 64)):
            for name, be in (("default", None), ("cudnn", SB.CUDNN_ATTENTION), ("flash", SB.FLASH_ATTENTION), ("efficient", SB.EFFICIENT_ATTENTION)):
                try:
                    q = torch.randn(B, S, H, D, device=dev, dtype=dt).transpose(1, 2).requires_grad_(True)
                    k = torch.randn(B, S, HK, D, device=dev, dtype=dt).transpose(1, 2).requires_grad_(True); v = torch.randn(B, S, HK, D, device=dev, dtype=dt).transpose(1, 2).requires_grad_(True)
                    with (sdpa_kernel(be) if be is not None else contextlib.nullcontext()):
                        torch.cuda.reset_peak_memory_stats(); a0 = A()
                        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != HK)
                    a1 = A(); p1 = torch.cuda.max_memory_allocated(); g = torch.randn_like(o); torch.cuda.reset_peak_memory_stats(); a2 = A()
                    node = type(o.grad_fn).__name__; o.backward(g); a3 = A(); p3 = torch.cuda.max_memory_allocated()
                    row["attention"].append(dict(dtype=str(dt), shape=[B, H, HK, S, D], asked=name, node=node, saved=a1 - a0, fwd_peak=p1 - a0, bwd_peak=p3 - a2, bwd_end=a3 - a2))
                except Exception as e: row["attention"].append(dict(dtype=str(dt), shape=[B, H, HK, S, D], asked=name, error=str(e)[:120]))
                q = k = v = o = g = None
    row["embedding"] = []
    for n, V, H in ((2048, 32000, 2048), (4096, 32000, 2048), (8192, 49152, 576), (16384, 151936, 1024)):
        e = torch.randn(V, H, device=dev, dtype=torch.bfloat16, requires_grad=True); ids = torch.randint(0, V, (n,), device=dev); o = F.embedding(ids, e); g = torch.ones_like(o)
        torch.cuda.reset_peak_memory_stats(); a0 = A(); o.backward(g); row["embedding"].append(dict(n=n, rows=V, width=H, scratch=torch.cuda.max_memory_allocated() - a0 - r512(V * H * 2))); e = ids = o = g = None
    ts = [torch.ones(s, device=dev) for s in (65536 * 3 + 1, 1000, 70000)]; torch.cuda.reset_peak_memory_stats(); a0 = A(); n = torch._foreach_norm(ts); row["foreach_norm"] = torch.cuda.max_memory_allocated() - a0
    # does the allocated count hold unsplit remainders? 12 MiB - 0.6 MiB of a fresh 12 MiB segment
    torch.cuda.empty_cache(); a0 = A(); t = torch.empty(12 * 2**20 - 600 * 1024, dtype=torch.uint8, device=dev); row["unsplit"] = A() - a0 - r512(t.numel())
    print(json.dumps(row), file=f, flush=True); print("warm-up", row["first_product"], row["first_backward_beyond_grad"], flush=True)

def main():
    ap = argparse.ArgumentParser(); ap.add_argument("--models", required=True); ap.add_argument("--out", required=True)
    ap.add_argument("--device", default="cuda"); ap.add_argument("--cases"); ap.add_argument("--only"); ap.add_argument("--budget", type=float, default=1e9); ap.add_argument("--list", action="store_true")
    a = ap.parse_args(); t0 = time.time()
    cases = gpu_cases() if (a.cases or ("gpu" if a.device == "cuda" else "cpu")) == "gpu" else cpu_cases()
    if a.only: cases = [c for c in cases if re.search(a.only, cid(c))]
    if a.list:
        for c in cases: print(cid(c))
        print(len(cases)); return
    with open(a.out, "a") as f:
        if a.device == "cuda":
            try: warm_up(f)
            except Exception as e: print(json.dumps(dict(id="warm-up", error=repr(e)[:300])), file=f, flush=True)
        for c in cases:
            if time.time() - t0 > a.budget: print("budget spent", flush=True); break
            try: row = run_case(c, a.models, a.device)
            except Exception as e:
                row = dict(id=cid(c), case=c, error=(type(e).__name__ + ": " + str(e))[:300]); e = None
                gc.collect()
                if a.device == "cuda": torch.cuda.empty_cache()
            print(json.dumps(row), file=f, flush=True)
            print(f"{time.time()-t0:.0f}s", row["id"], row.get("secs", ""), max(row["peaks"].values()) if "peaks" in row else row.get("error"), flush=True)
if __name__ == "__main__": main()
