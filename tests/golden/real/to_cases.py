#!/usr/bin/env python3
"""measure.py's JSON lines as a case file.  usage: to_cases.py IN.jsonl OUT.csv --on 1x1xH200-141GB [--model-prefix DIR/] [--less-workspace BYTES]"""
import argparse, csv, json
COLS = "id,source,model,layers,on,stack,engine,stage,wrap,replicate,reshard,tp,sp,pp,cp,ep,param,compute,how,reduce,grad,master,state,optimizer,step,clip,seq,batch,accumulate,sync,checkpoint,attention,mask,kernels,loss,keep_logits,prefetch,lora_rank,lora_on,lora_dropout,adapter,base,base_upcast,trainer,offload,engine_options,metric,phase,bytes,trust,version,note".split(",")
MP = dict(bf16=("bf16", "bf16", "none", ""), fp32=("fp32", "fp32", "none", ""), amp=("fp32", "bf16", "autocast", ""), p16r32=("fp32", "bf16", "policy", "fp32"))
PHASES = ["init", "forward", "loss", "backward", "clip", "optimizer", "forward2", "loss2", "backward2", "clip2", "optimizer2"]
ap = argparse.ArgumentParser(); ap.add_argument("src"); ap.add_argument("out"); ap.add_argument("--on", default="1x1xH200-141GB"); ap.add_argument("--source", default="")
ap.add_argument("--model-prefix", default=""); ap.add_argument("--suffix", default=""); a = ap.parse_args()
w = csv.DictWriter(open(a.out, "w"), COLS, lineterminator="\n", restval=""); w.writeheader()
for line in open(a.src):
    r = json.loads(line)
    if "peaks" not in r: continue
    c = r["case"]; param, compute, how, reduce = MP[c["mp"]]
    base = dict(source=a.source or f"torch {r['torch']}, transformers {r['transformers']}, real tensors", model=a.model_prefix + c["model"] + a.suffix, layers=c["layers"] or "", on=a.on, stack="hf", engine=c["engine"],
                wrap="block" if c["engine"].startswith("fsdp") else "", reshard="yes" if c["engine"].startswith("fsdp") else "", replicate=1, tp=1, pp=1, cp=1, ep=1, param=param, compute=compute, how=how, reduce=reduce,
                master="none", optimizer="adamw", step=c["opt"], clip=c["clip"] or "no", seq=c["S"], batch=c["B"], accumulate=c["accum"], sync="each", checkpoint=c["ac"], attention=c["attn"],
                kernels="plain", loss="full", keep_logits="no", base="none", offload="none", metric="allocated", trust="high", version=r["transformers"])
    for p in PHASES:
        if p not in r["peaks"]: continue
        w.writerow(dict(base, id=r["id"] + "/" + p, phase=p, bytes=r["ends"]["init"] if p == "init" else r["peaks"][p]))
