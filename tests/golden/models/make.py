"""Writes what these tests compare with: for every configuration *.json here, *.txt with the names, shapes and types of
named_parameters() (tied names after them) and named_buffers() of the Hugging Face class, built on the meta device, and the
order in which a forward pass calls the modules that hold parameters. Made with torch 2.13.0 and transformers 5.24.0:  python make.py"""
import glob, json, os, torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM

def word(dtype):
    return str(dtype).replace("torch.", "")

def calls(raw, config):
    """The modules with parameters of their own in the order in which one forward pass calls them."""
    if raw.get("_count_only"):
        return []
    model, order = AutoModelForCausalLM.from_config(config).eval(), []
    for name, module in model.named_modules():
        if any(p is not None for p in module._parameters.values()):
            module.register_forward_pre_hook(lambda m, args, name=name: order.append(name))
    with torch.no_grad():
        model(torch.zeros(1, 4, dtype=torch.long))
    return [f"call {name}" for name in order]

def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "*.json"))):
        raw = json.load(open(path))
        config = AutoConfig.for_model(raw["model_type"], **{k: v for k, v in raw.items() if k != "model_type"})
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        seen, lines = {}, []
        for name, p in model.named_parameters():
            seen[id(p)] = name
            lines.append(f"param {name} {list(p.shape)} {word(p.dtype)}".replace(", ", ","))
        for name, p in model.named_parameters(remove_duplicate=False):
            if seen[id(p)] != name:
                lines.append(f"tied {name} {seen[id(p)]}")
        for name, b in model.named_buffers():
            lines.append(f"buffer {name} {b.numel()} {word(b.dtype)}")
        lines += calls(raw, config)
        lines.append(f"count {sum(p.numel() for p in model.parameters())}")
        if raw.get("_count_only"):
            lines = lines[-1:]
        open(path[:-5] + ".txt", "w").write("\n".join(lines) + "\n")

main()
