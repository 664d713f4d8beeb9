"""What README and docs/ say of measurements is what the recordings in benchmarks/results and docs/results hold."""

import importlib.util
import json
import lzma
import math
import re
import statistics
import tarfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOKENIZERS = ("anthropic", "o200k_base")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven")


def text(name):
    return (ROOT / name).read_text()


def rows(name):
    data = (RECORDINGS / name).read_bytes()
    return [json.loads(line) for line in (lzma.decompress(data) if name.endswith(".xz") else data).splitlines()]


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def in_thousands(number):
    return f"{round(number, -3):,.0f}"


def test_each_recording_is_named_with_its_command_and_used_and_none_is_linked_that_is_not_there():
    names = {path.name for path in RECORDINGS.iterdir()}
    listed = set(re.findall(r"`([\w.-]+\.(?:jsonl\.xz|jsonl|json|txt))`", text("benchmarks/README.md")))
    linked = {name for page in PAGES for name in re.findall(r"benchmarks/results/([\w.-]+\w)", page.read_text())}
    assert names == listed == linked


def test_recordings_hold_no_path_of_the_machine_that_made_them():
    paths = re.compile(rb"/(?:home|root|tmp|work|mnt|Users)/")
    published = [p for p in (ROOT / "docs" / "results").rglob("*") if p.suffix in (".json", ".jsonl", ".html", ".xz")]
    for path in [*RECORDINGS.iterdir(), *published]:
        data = path.read_bytes()
        assert not paths.search(lzma.decompress(data) if path.suffix == ".xz" else data), path.name


@pytest.mark.parametrize("machine", ["cpu", "h200"])
def test_the_attacks(machine):
    found = rows(f"{machine}-2026-11-30-attacks.jsonl")
    controls = [row for row in found if row["family"] == "control"]
    expected = f"{sum(row['as_expected'] for row in found)} of {len(found)} as expected"
    at = Counter(row["stage"] for row in found if row["outcome"] == "caught")
    quiet = [row for row in found if row["outcome"] == "no effect"]
    passed = (
        f"{len(quiet)} passed without effect, {NUMBERS[sum(r in controls for r in quiet)]} of the controls among them"
    )
    (paragraph,) = [p for p in text("docs/trust.md").splitlines() if f"{machine}-2026-11-30-attacks.jsonl" in p]
    assert expected in paragraph and passed in paragraph
    assert f"{at['read']} caught at read, {at['interpret']} at interpret, {at['compile']} at compile" in paragraph
    if machine == "cpu":
        left = sum(row["outcome"] == "left to a GPU" for row in found)
        assert f"{len(found) - len(controls)} attacks and {len(controls)} controls" in paragraph
        assert f"and {left} can only be caught on a GPU" in paragraph and set(at) == {"read", "interpret", "compile"}
    else:
        assert at["timing"] == at["tune"] == 1 and sum(at.values()) + len(quiet) == len(found)
        assert f"{at['numerics']} at numerics, {at['guards']} at guards, one each at timing and at tune" in paragraph


def test_the_faults():
    said, found = text("docs/trust.md"), rows("h200-2026-11-30-faults.jsonl")
    first, second = found[:20], found[20:]
    assert len(found) == 40 and len({(row["kind"], row["number"]) for row in found}) == 40
    assert not any(row["wrong"] for row in found)
    one, two = (max(part, key=lambda row: row["well_s"]) for part in (first, second))
    assert one["kind"] == two["kind"] == "compile_server"
    assert f"well again after {one['well_s']:.1f} s at most in the first part" in said
    assert f"and after {two['well_s']:.1f} s in the second, both times after a killed compile server" in said
    without = rows("cpu-2026-11-29-faults.jsonl")
    most = max(row["well_s"] for row in without)
    assert f"all {len(without)} without one: nothing lost" in said and not any(row["wrong"] for row in without)
    assert f"well again after {most:.0f} s at most (a coordinator" in said


def test_the_repeated_judgements():
    (said,) = [p for p in text("docs/trust.md").splitlines() if p.startswith("Ten judgements")]
    spreads, counted = {}, {}
    for name in ("repeat", "repeat-25-rounds", "repeat-before"):
        judged = [row["workloads"] for row in rows(f"h200-2026-11-30-{name}.jsonl") if "judgement" in row]
        counted[name] = len(judged)
        for size, shape in enumerate(zip(*judged, strict=True)):
            for ratio in ("tax", "over_eager"):
                values = [row[ratio]["value"] for row in shape]
                spreads[name, ratio, size] = f"{100 * (max(values) / min(values) - 1):.1f} %"
                if (name, ratio) == ("repeat", "tax"):
                    assert f"between {min(values):.3f} and {max(values):.3f}" in said
                    assert len({row["schedule"] for row in shape}) == 1
    both = {(n, r): f"{spreads[n, r, 0]} and {spreads[n, r, 1]}" for n, r, _ in spreads}
    assert f"{both['repeat', 'tax']} from the smallest to the largest" in said
    assert f"eager within {both['repeat', 'over_eager']}." in said
    assert f"eight judgements lay within {both['repeat-before', 'tax']} of tax" in said
    assert f"ten judgements lay within {both['repeat-25-rounds', 'tax']} of tax, and" in said
    assert f"within {both['repeat-25-rounds', 'over_eager']} of the speed-up over eager" in said
    assert counted == {"repeat": 10, "repeat-25-rounds": 10, "repeat-before": 8}


def test_the_width_of_the_intervals():
    verdicts = rows("h200-2026-11-29-gate.jsonl.xz")
    taxes = [row["tax"] for verdict in verdicts for row in verdict["timing"]["workloads"]]
    width = f"{100 * statistics.median((t['high'] - t['low']) / t['value'] for t in taxes):.1f} %"
    assert f"its interval ({width} wide in the median)" in text("README.md")
    assert f"the tax's interval is {width} wide in the median" in text("docs/trust.md")
    replaced = rows("h200-2026-11-29-gate-first.jsonl.xz")
    said = text("docs/trust.md")
    assert f"of the {len(verdicts) + len(replaced)} recorded judgements on kernels by hand" in said
    refused = [v for v in replaced if v["status"] == "refused"]
    still = [v for v in refused if v["task"] in ("linear_dlogits_fp8", "softcap_dlogits_fp8")]
    assert (len(refused), len(refused) - len(still)) == (12, 8) and "twelve were refusals, and eight" in said
    assert {v["task"] for v in refused} - {v["task"] for v in verdicts} == {v["task"] for v in still}
    assert f"The {len(verdicts)} verdicts in the registry" in said


def test_fast_accumulation_is_refused():
    printed = re.findall(r"PRINTED (\w+): .*, ([\d.]+) times", text("benchmarks/results/h200-2026-11-30-gpu-tests.txt"))
    sigmoid, clamp = dict(printed)["linear_sigmoid_fp8"], dict(printed)["linear_clamp_fp8"]
    assert f"by {float(sigmoid):.0f} and {float(clamp):.0f} times the bound of these two" in text("docs/trust.md")


def test_what_fp8_loses_of_large_logits_is_what_scaled_mm_loses():
    refused = [v for v in rows("h200-2026-11-29-gate-first.jsonl.xz") if v["status"] == "refused"][-2:]
    found = [stage["finding"]["details"] for verdict in refused for stage in verdict["stages"] if stage["finding"]]
    assert [round(d["kernel_max"], 1) for d in found] == [0.3, 0.2]
    for details in found:
        assert details["kernel_max"] == details["unfused_max"] > details["bound_max"] > details["scale_max"] / 8


def test_the_tax_at_the_papers_shapes():
    spec = importlib.util.spec_from_file_location("kinds", ROOT / "benchmarks" / "kinds.py")
    kinds = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kinds)
    lines = kinds.at_the_papers_shapes(rows("h200-2026-11-29-gate.jsonl.xz"))
    taxes = {line.split()[0]: (line.split()[2], line.split()[4]) for line in lines}
    sides = re.findall(r"([\d.]+ at \d+) \(12\)", lines[0])
    (said,) = [line for line in text("README.md").splitlines() if line.startswith("- **At the shapes of the CODA")]
    assert f"{taxes['bf16'][0]} in bf16 over {taxes['bf16'][1]} shapes ({', '.join(sides)})" in said
    assert f"{taxes['fp16'][0]} in fp16" in said and len(sides) == 3 and float(taxes["bf16"][0]) <= 1.08
    fp8 = re.findall(r"([\d.]+) at \d+ \(9\)", lines[2])
    assert (
        f"{taxes['fp8'][0]} over {taxes['fp8'][1]} shapes with fp8 operands ({', '.join(fp8[:2])} and {fp8[2]})" in said
    )


def test_what_another_stage_of_fp8_operands_is_worth():
    """By how many KiB of them were on their way before: what the race of the schedules took, then and now."""
    newest = {(v["task"], v["tier"]): v for v in rows("h200-2026-11-29-gate.jsonl.xz") if storage_of(v) == "fp8"}
    before = {(v["task"], v["tier"]): v for v in rows("h200-2026-11-29-gate-first.jsonl.xz") if storage_of(v) == "fp8"}
    shares: dict[int, list[float]] = {}
    for key, old in before.items():
        (was, then), (has, now) = (stages_and_races(v) for v in (old, newest.get(key, old)))
        for workload in then.keys() & now.keys():
            took = {s: now[workload][s] / then[workload][s] for s in was}
            kept = [share for s, share in took.items() if has[s] == was[s]]
            for s in took.keys() if kept else ():
                if has[s] > was[s]:
                    m, n = map(int, s.split("-")[0].split("x"))
                    shares.setdefault(was[s] * (m + n) // 8, []).append(took[s] / statistics.median(kept))
    worth = {size: round(100 * (1 - statistics.median(share))) for size, share in shares.items()}
    said = " ".join((ROOT / "templates" / "pipeline_stages.py").read_text().split())
    assert f"{worth[120]} % of the time where 120 KiB were, {worth[128]} % where 128, {worth[144]} % where 144" in said
    assert worth[160] <= 0 and worth[168] <= 0 and "and none where 160" in said


def storage_of(verdict):
    return verdict["timing"]["workloads"][0]["workload"]["storage"] if verdict["status"] == "admitted" else ""


def stages_and_races(verdict):
    data = {stage["stage"]: stage["data"] for stage in verdict["stages"]}
    return {s: c["stages"] for s, c in data["compile"]["schedules"].items()}, data["tune"]["milliseconds"]


def test_each_kernel_on_fp8_operands_has_its_recorded_speed_ups_over_torch_compile_in_the_registry():
    """Of eight the reference was cut into pieces once, and what they had was taken out of both until it was whole."""
    measured = [v for v in rows("h200-2026-11-29-gate.jsonl.xz") if storage_of(v) == "fp8"]
    assert len(measured) == 51
    for verdict in measured:
        recorded = {json.dumps(r["workload"]["sizes"]): r["over_compile"] for r in verdict["timing"]["workloads"]}
        records = (ROOT / "verified_kernels" / "kernels" / verdict["task"]).glob("*/record.json")
        evidence = [e for record in records for e in json.loads(record.read_text())["evidence"]]
        (kept,) = [e for e in evidence if e["storage"] == "fp8"]
        found = {
            json.dumps(w["workload"]["sizes"]): t["over_compile"]
            for w in kept["workloads"]
            for t in w["timings"]
            if t["over_eager"]
        }
        assert found == recorded, verdict["task"]


def test_the_training_table():
    small, large = (
        json.loads(text(f"benchmarks/results/h200-2026-11-29-{n}.json"))["runs"] for n in ("train", "step1b")
    )
    speed = {v: statistics.median(r["tokens_per_second"] for r in seeds.values()) for v, seeds in small.items()}
    finals = {v: [statistics.fmean(r["losses"][-20:]) for r in seeds.values()] for v, seeds in small.items()}
    means = {v: statistics.fmean(f) for v, f in finals.items()}
    steps = [large[v]["0"] for v in small]
    lines = {
        "57M, tokens a second (median of three seeds)": [in_thousands(s) for s in speed.values()],
        "final loss, mean of three seeds": [f"{m:.3f}" for m in means.values()],
        "1.2B at 16,384 tokens, forward and backward": [
            f"{r['milliseconds']['forward and backward']:.1f} ms" for r in steps
        ],
        "with the optimizer's step": [f"{r['milliseconds']['step']:.1f} ms" for r in steps],
        "peak memory": [f"{r['peak_GiB']:.1f} GiB" for r in steps],
    }
    said = text("docs/using.md")
    for name, cells in lines.items():
        assert "| " + " | ".join([name, *cells]) + " |" in said
    spreads = [max(f) - min(f) for f in finals.values()]
    assert f"lie {min(spreads):.2f} to {max(spreads):.2f} apart" in said
    assert f"the variants' means {max(means.values()) - min(means.values()):.3f}" in said
    readme = text("README.md")
    for row in steps:
        took = f"{row['milliseconds']['forward and backward']:.0f} ms", f"{row['peak_GiB']:.1f} GiB"
        assert re.search(rf"{took[0]}[\w ]* and {re.escape(took[1])}", readme), took


def test_the_readme_on_libraries_the_host_and_batch_invariance():
    said, best = text("README.md"), {}
    for row in rows("h200-2026-11-29-libraries.jsonl"):
        if "over_library" in row:
            shape = row["task"], json.dumps(row["workload"], sort_keys=True)
            best[shape] = min(best.get(shape, row["over_library"]), row["over_library"], key=lambda r: r["value"])
    faster, slower = sum(r["low"] > 1 for r in best.values()), sum(r["high"] < 1 for r in best.values())
    worst = min(best, key=lambda shape: best[shape]["value"])
    assert (
        f"{len(best)} shapes of {len({task for task, _ in best})} tasks, bf16" in said
        and worst[0] == "swiglu_bwd_pointwise"
    )
    assert f"is {mean([r['value'] for r in best.values()]):.2f} times as fast in the geometric mean: " in said
    assert f"faster on {faster} shapes, undecided on {len(best) - faster - slower}, slower on {slower}, " in said
    assert f"and {best[worst]['value']:.2f} times as fast at the least" in said
    (host,) = rows("h200-2026-11-29-host.jsonl")
    part = {name: f"{value:.1f}" for name, value in host["microseconds"].items()}
    assert f"{part['call']} microseconds, and {part['call with gradient']} where a gradient is wanted" in said
    assert f"the linked kernel alone, {part['bare linked call']}, " in said
    _, outside = rows("h200-2026-11-29-operator.jsonl")
    took = {name: f"{value:.2f} ms" for name, value in outside["milliseconds"].items()}
    assert (
        f"{took['operator']}, against {took['torch.compile']} for torch.compile and {took['eager']} as written" in said
    )
    costs = [row for row in rows("h200-2026-11-29-batch_invariance.jsonl") if "cost" in row]
    most = {m: max(100 * (r["cost"] - 1) for r in costs if r["sizes"]["M"] == m) for m in (1024, 4096, 16384)}
    assert f"costs {100 * (mean([r['cost'] for r in costs]) - 1):.0f} % in the geometric mean over {len(costs)}" in said
    assert f"{most[1024]:.0f} % at worst, at 1024 rows, {most[4096]:.0f} % at most at 4096, {most[16384]:.1f} %" in said
    assert max(costs, key=lambda r: r["cost"])["sizes"]["M"] == 1024


def test_the_published_evals():
    said, folder = text("docs/evals.md"), ROOT / "docs" / "results" / "evals-h200"
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    by_hand = [row for row in found if row["model"] == "hand-written"]
    scripted = [row for row in found if row["model"].startswith("command:")]
    assert f"All {len(found)} samples were made" in said and len(found) == 4 * len(by_hand)
    assert f"passed on all {sum(row['status'] == 'passed' for row in by_hand)} tasks" in said and len(by_hand) == 80
    (score,) = [s for s in json.loads((folder / "results.json").read_text())["scores"] if s["model"] == "hand-written"]
    speedup = mean([row["speedup"] for row in by_hand])
    assert speedup == pytest.approx(score["speedup_all"]["value"])
    assert (
        f"{speedup:.2f} times as fast as the better of eager and torch.compile "
        f"({score['speedup_all']['low']:.2f} to {score['speedup_all']['high']:.2f})"
    ) in said
    share = 100 * sum(row["status"] == "passed" for row in scripted) / len(scripted)
    assert f"the scripted model on {share:.0f} %" in said
    judged = {(row["task"], a["tax"]) for row in found for a in row["attempts"] if a["tax"]}
    assert f"Behind the rows stand {len(judged)} judgements" in said
    assert f"of the {len(judged)} judgements of [the published evals]" in text("docs/trust.md")


def test_the_campaign_shown_is_one_of_the_published_run():
    results = ROOT / "docs" / "results"
    with tarfile.open(results / "evals-h200" / "journals.tar.xz") as archive:
        (name,) = [n for n in archive.getnames() if re.search(r"/builtin-search-\w+/linear_silu-closed-1\.jsonl$", n)]
        assert archive.extractfile(name).read() == (results / "search-linear_silu.jsonl").read_bytes()


def test_the_sizes_of_questions():
    said, found = text("docs/agent.md"), rows("cpu-2026-11-30-prompt_size.jsonl")
    for level in (1, 2, 3, 4):
        tiers = [row for row in found if row["level"] == level]
        cells = [f"{row['anthropic']['request']:,}, {row['o200k_base']['request']:,}" for row in tiers]
        assert "| " + " | ".join([str(level), *cells, *["-"] * (2 - len(cells))]) + " |" in said
    one = [row for row in found if row["level"] < 4]
    first = {
        (t, n): max(r[n]["first"] for r in one if r["tier"] == t) for t in ("closed", "cutedsl") for n in TOKENIZERS
    }
    claude, o200k = TOKENIZERS
    assert f"at most {first['closed', claude]:,} tokens in the closed tier and {first['cutedsl', claude]:,}" in said
    assert f"{first['closed', o200k]:,} and {first['cutedsl', o200k]:,} by OpenAI's o200k_base" in said
    assert f"up to {found[-1][claude]['first']:,} and {found[-1][o200k]['first']:,}" in said
