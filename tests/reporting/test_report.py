import base64
import gzip
import json
import math
import os
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser

import pytest

from jaxprune.reporting import write_report
from jaxprune.reporting.tables import csv_text
from tests.reporting.synthetic import make_layers, make_masks, make_records, make_sizes

CONFIG = {
    "command": "python experiments/sweep.py --algo=bc",
    "versions": {"jax": "1.2.3"},
    "hardware": "two cores",
    "nested": {"rounds": 7},
}
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Links, ids, text and whether tags balance."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.links, self.ids, self.words, self.stack, self.tags, self.unbalanced = [], [], [], [], Counter(), []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for key, value in attrs:
            if key in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.links.append(value)
            if key == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if not self.stack or self.stack[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).replace("\xa0", " ").split())


def written(tmp_path, records, config=CONFIG, **options):
    path = write_report(tmp_path / "report.html", records, config, **options)
    return Page(path.read_text(encoding="utf-8"))


def test_self_contained_well_formed_and_complete(tmp_path):
    records = make_records(algos=("bc", "bcq"))
    page = written(tmp_path, records, layers=make_layers(), notes=["First.", "Second."])
    assert not page.unbalanced
    assert not page.stack
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert max(Counter(page.ids).values()) == 1
    assert set(link[1:] for link in page.links if link.startswith("#")) <= set(page.ids)
    assert "script" not in page.tags
    assert page.tags["svg"] == 2 * 3 + 1
    for name in (
        "Dense",
        "SNIP",
        "GraSP",
        "Random",
        "BC on Hopper medium",
        "BCQ",
        "First.",
        "Second.",
        "3,571",
        CONFIG["command"],
        "1.2.3",
        "two cores",
    ):
        assert name in page.text
    assert "nested.rounds 7" in page.text
    assert "actor Dense_2" in page.text


def test_nothing_but_namespaces_names_another_host(tmp_path):
    records = make_records()
    write_report(tmp_path / "r.html", records, CONFIG, layers=make_layers(), sizes=make_sizes(records), masks=make_masks(records))
    html = (tmp_path / "r.html").read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in html
    assert "@import" not in html
    assert "//" not in html.replace("base64,", "").split("<svg")[0]


def test_the_heading_answers_the_question(tmp_path, records):
    for row in records:
        row["return_mean"] = {"dense": 1000.0, "snip": 980.0, "grasp": 900.0, "random": 500.0}[row["criterion"]]
    page = written(tmp_path, records)
    assert "BC on Hopper medium: SNIP keeps 98 % of the dense return at 95 % sparsity, Random 50 % (3 seeds, points and range)" in page.text
    assert "SNIP is the best of 2 criteria" in page.text
    assert "SNIP and Random: the ranges do not overlap" in page.text


def test_five_seeds_come_with_their_interval(tmp_path):
    page = written(tmp_path, make_records(seeds=5))
    assert "(5 seeds, mean and 95 % bootstrap interval)" in page.text
    assert "IQM" in page.text


def test_no_dense_one_seed_one_sparsity(tmp_path):
    records = [row for row in make_records(seeds=1, sparsities=(0.9,), evaluations=1) if row["criterion"] != "dense"]
    page = written(tmp_path, records)
    assert "at 90 % sparsity, with no dense reference (1 seed, one point, no spread)" in page.text
    assert "one seed each, which cannot tell them apart" in page.text


def test_a_negative_dense_return_has_no_percentage(tmp_path):
    records = [row | dict(return_mean=-row["return_mean"]) for row in make_records()]
    page = written(tmp_path, records)
    assert "keeps" not in page.text.split("Sparsity is")[0]
    assert "n/a" in page.text


def test_failed_runs_are_named_with_their_reason(tmp_path, records):
    records[0]["return_mean"] = math.nan
    records[-1].update(status="failed", error="<out of memory>")
    page = written(tmp_path, records)
    assert "2 runs failed and count in no number" in page.text
    assert "there is no return at step 1,000" in page.text
    assert "<out of memory>" in page.text
    assert records[0]["run_id"] in page.text


def test_all_runs_failed_still_makes_a_page(tmp_path, records):
    page = written(tmp_path, [row | dict(status="failed") for row in records])
    assert "no run finished" in page.text
    assert page.tags["svg"] == 0
    page = written(tmp_path, [row if row["criterion"] == "dense" else row | dict(status="failed") for row in records])
    assert "nothing pruned finished" in page.text


def test_everything_is_escaped(tmp_path, records):
    evil = "<script>alert('x')</script>\"&"
    for row in records:
        if row["criterion"] == "grasp":
            row["criterion"] = evil
        row["dataset"] = evil
        row["run_id"] += evil
    records[-1]["status"] = evil
    layers = [row | dict(layer=evil, network=evil) for row in make_layers()]
    page = written(
        tmp_path, records, {"command": evil, evil: {evil: [evil]}, "hardware": evil, "versions": {evil: evil}}, layers=layers, notes=evil
    )
    assert "script" not in page.tags
    assert not page.unbalanced
    assert page.text.count(evil) > 10


def test_the_records_travel_as_csv(tmp_path, records):
    page = written(tmp_path, records)
    (link,) = [link for link in page.links if link.startswith("data:text/csv")]
    assert base64.b64decode(link.split("base64,")[1]).decode() == csv_text(records)


def test_many_records_travel_compressed(tmp_path):
    records = make_records(seeds=20, evaluations=8)
    page = written(tmp_path, records)
    (link,) = [link for link in page.links if link.startswith("data:application/gzip")]
    assert gzip.decompress(base64.b64decode(link.split("base64,")[1])).decode() == csv_text(records)


def test_a_usual_sweep_is_light(tmp_path):
    criteria = ("snip", "grasp", "crop", "magnitude", "random")
    sparsities = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
    records = make_records(algos=("bc", "bcq"), criteria=criteria, sparsities=sparsities, seeds=5, evaluations=20)
    layers = make_layers(seeds=5, criteria=criteria, sparsities=sparsities)
    path = write_report(tmp_path / "r.html", records, CONFIG, layers=layers, sizes=make_sizes(records), masks=make_masks(records))
    assert path.stat().st_size < 1_500_000


def test_costs_are_per_run_and_per_setting(tmp_path, records):
    page = written(tmp_path, records, sizes=make_sizes(records))
    # Of SNIP at 95 %: 2 · 5 · (1 − 0.475) s of a stack of two; 6 · 3,571 + 2,000 bytes of a dense policy's 288,000; 3 · 3,571 + 2,500.
    row = page.text.split("Criterion Sparsity Training a run")[1].split("SNIP 95 %")[1].split("SNIP 99 %")[0].split()
    assert " ".join(row) == "2.6 s 2 0.2 s 0.2 s 11,837 23.4 kB 13.2 kB 12.3×"
    assert "(288 kB as dense arrays)" in page.text
    assert "Exported policy, bytes" in page.text
    without = written(tmp_path, records)
    assert "Exported policy" not in without.text
    assert "int8" not in without.text
    assert without.tags["svg"] == page.tags["svg"] == 3


def test_records_without_costs_have_no_part_about_them(tmp_path, records):
    costs = ("wall_s", "eval_s", "start_s", "stack", "executed")
    page = written(tmp_path, [{key: value for key, value in row.items() if key not in costs} for row in records])
    assert "What it costs" not in page.text
    assert page.tags["svg"] == 2


def test_masks_are_drawn_of_the_runs_they_are_of(tmp_path, records):
    page = written(tmp_path, records, masks=make_masks(records))
    assert "Masks of seed 0 at 95 % sparsity" in page.text
    assert page.tags["image"] == 3 * 3 + 1  # criteria × kernels, and the colour bar
    with pytest.raises(ValueError, match="mask row 0 is of run z, which no record is of"):
        written(tmp_path, records, masks=[dict(run_id="z", kernels={})])
    with pytest.raises(ValueError, match="size row 0 has no column stored_bytes"):
        written(tmp_path, records, sizes=[dict(run_id="z", dense_bytes=1, int8_bytes=1)])
    with pytest.raises(ValueError, match="expected stored_bytes above 0, got 0"):
        written(tmp_path, records, sizes=[dict(run_id="z", dense_bytes=1, stored_bytes=0, int8_bytes=1)])


def test_a_sweep_that_was_not_evaluated_is_not_failed(tmp_path, records):
    unseen = [row | dict(return_mean=None, score=None, eval_s=0.0) for row in records]
    page = written(tmp_path, unseen, layers=make_layers(), sizes=make_sizes(records), masks=make_masks(records))
    assert "BC on Hopper medium: 30 runs trained, not evaluated" in page.text
    assert "Failed runs" not in page.text
    assert "no return at step" not in page.text
    assert page.tags["svg"] == 3  # losses, layers, masks
    for word in ("Policy loss", "Kept 71,424", "Training", "Multiplied", "What each layer keeps", "Where the kept weights are"):
        assert word.replace("Kept ", "") in page.text
    header = page.text.split("prunable weights", 2)[2].split("Dense")[0]
    assert "Return" not in header
    assert "Of dense" not in header
    unseen[-1].update(status="failed", reason="out of memory")
    page = written(tmp_path, unseen)
    assert "1 run failed" in page.text
    assert "29 runs trained, not evaluated" in page.text


def test_behaviour_by_data_set_in_the_unit_of_the_plot(tmp_path, records):
    name = "jaxprune/hopper/medium-v0"
    assert "Behaviour" in written(tmp_path, records, {"behaviour_return": {name: 1500.0}, "behaviour_score": {name: 46.7}}).text
    assert "Behaviour" in written(tmp_path, records, {"behaviour_score": 46.7}).text
    assert "Behaviour" not in written(tmp_path, records, {"behaviour_return": 1500, "behaviour_score": None}).text
    unscored = [{**record, "score": None} for record in records]
    assert "Behaviour" in written(tmp_path, unscored, {"behaviour_return": 1500, "behaviour_score": None}).text


def test_several_data_sets_are_pooled(tmp_path):
    page = written(tmp_path, make_records(datasets=("x/hopper/medium-v0", "x/walker2d/medium-v0"), evaluations=2))
    assert "BC, normalised score over 2 data sets" in page.text
    assert "3 × 2" in page.text


def test_deterministic_also_in_another_process(tmp_path, records):
    here = write_report(tmp_path / "a.html", records, CONFIG).read_bytes()
    (tmp_path / "records.json").write_text(json.dumps(records))
    code = (
        "import json, sys; from jaxprune.reporting import write_report;"
        "write_report(sys.argv[2], json.load(open(sys.argv[1])), json.loads(sys.argv[3]))"
    )
    arguments = [str(tmp_path / "records.json"), str(tmp_path / "b.html"), json.dumps(CONFIG)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert (tmp_path / "b.html").read_bytes() == here


def test_written_whole_or_not_at_all(tmp_path, records):
    path = write_report(tmp_path / "report.html", records, CONFIG)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="no records"):
        write_report(path, [], CONFIG)
    with pytest.raises(ValueError, match="no column layer"):
        write_report(path, records, CONFIG, layers=[{"algo": "bc", "criterion": "snip", "sparsity": 0.9, "seed": 0, "kept": 1, "total": 2}])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]


def test_importing_loads_no_heavy_package():
    code = "import sys, jaxprune.reporting; print([name for name in ('matplotlib', 'scipy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
