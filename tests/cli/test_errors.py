"""A user's mistake is one message that helps, and an exit code; never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def fedprof(*arguments, cwd):
    command = [sys.executable, "-m", "fedprof", *map(str, arguments)]
    wide = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, env=wide, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("line", "helpful"),
    [
        ("compare digit", "Did you mean 'digits'?"),
        ("compare digits -a fedproff", "Did you mean 'fedprof'?"),
        ("compare digits --set alhpa=3", "alpha"),
        ("compare digits --seeds 0", "--seeds"),
        ("run digts", "Did you mean 'digits'?"),
        ("run digits -a fedprf", "Did you mean 'fedprof'?"),
        ("run digits --set alhpa=3", "Did you mean 'alpha'?"),
        ("run digits --set alpha=-1", "greater than or equal to 0"),
        ("run digits --set fraction=1.5", "less than or equal to 1"),
        ("run digits --set rate=quick", "valid number"),
        ("run digits --set rate=inf", "finite number"),
        ("run digits --set snr_db=1e4", "less than or equal to 200"),
        ("run digits --set batch=99999999999999999999", "less than 2147483648"),
        ("run digits --set clients=true", "valid integer"),
        ("run digits --set bits_per_sample=1e308", "less than or equal to 1000000000000000"),
        ("run digits --set name=../evil", "should match pattern"),
        ("run digits --set partition.kind=dirchlet", "Did you mean 'dirichlet'?"),
        ("run digits --set damage.blurr.share=0.1", "Did you mean 'blur'?"),
        ("run digits --set model.options.hiden=[3]", "Did you mean 'model.options.hidden'?"),
        ("run digits --set model.options.hidden=[0]", "has no weights"),
        ("run digits --set model.options.hidden=[100000000000]", "does not fit into memory"),
        ("run digits --set algorithms.fedprf.alpha=3", "Did you mean 'fedprof'?"),
        ("run digits -a fedavg --set alpha=3", "a setting of fedprof, not of fedavg"),
        ("run digits --workers 100000", "256"),
        ("run digits --rounds 0", "from 1 to"),
        ("run digits --seed -1", "from 0 to"),
        ("run digits --aggregation parital", "'full', 'partial'"),
        ("run digits --engine numba", "'native'"),
        ("run digits --log tensorbord", "Did you mean 'tensorboard'? Known: tensorboard, mlflow, wandb"),
        ("run mine.toml", "no file mine.toml"),
        ("run --rouns 3", "--rounds"),
        ("rnu digits", "Did you mean 'run'?"),
        ("compare digits -a fedavg-partial", "full mode only"),
        ("figure heatmp", "Did you mean 'heatmap'?"),
        ("figure heatmap", "--task"),
        ("figure heatmap -o picture.bmp", ".pdf, .png, .svg"),
        ("figure heatmap runs --rounds 3", "no use for --rounds without --task"),
        ("figure traces-full --task digits --epochs 3", "no use for --epochs"),
        ("figure conditions runs --task digits", "no use for runs and --task"),
        ("figure normality-fc --set alpha=3", "no use for --set"),
        ("report . -o page.pdf", "name it page.html"),
        ("compare digits -a ,", "--algorithms ',' names none"),
        ("figure normality-fc --epochs one", "whole numbers"),
        ("data verify mnst", "Did you mean 'mnist'?"),
        ("reproduce gastrubine", "Did you mean 'gasturbine'?"),
        ("reproduce tune-digits-af", "Did you mean 'tune-digits-afl'?"),
        ("audit", "--run"),
        ("audit --run a.sqlite --model mlp", "both name a model"),
        ("audit --run a.sqlite --layer fc2", "--run knows its weights, layer"),
        ("nonsense", "nonsense"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_is_right(line, helpful, tmp_path):
    done = fedprof(*line.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count(helpful) == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "helpful"),
    [
        ("task = 3", "There is no task '3'"),
        ('task = "mine.toml"', "mine.toml can build on one of these"),
        ('task = "digits"\ndata = 3', "data = 3"),
        ('task = "digits"\nname = ""', "should match pattern"),
        ('task = "digits"\n[algorithms.fedporf]\nalpha = 3', "Did you mean 'fedprof'?"),
    ],
)
def test_a_task_file_that_makes_no_sense_exits_with_2(text, helpful, tmp_path):
    (tmp_path / "mine.toml").write_text(text)
    done = fedprof("run", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert helpful in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "helpful"),
    [
        ("run digits --out .", ". is a folder; a run is a file"),
        ("report nowhere.sqlite", "no run at nowhere.sqlite"),
        ("report .", "holds no run"),
        ("report note.sqlite", "not a run of fedprof"),
        ("compare mnist --rounds 1 --seeds 1 -a fedavg --data .", "fedprof data fetch mnist"),
        ("audit . --model mlp --weights w.safetensors", "cannot be read as weights"),
    ],
)
def test_what_fails_exits_with_1_and_says_what_to_do(line, helpful, tmp_path):
    if "note" in line:
        (tmp_path / "note.sqlite").write_text("not a database, however long this text may be" * 40)
    done = fedprof(*line.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert helpful in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_result_that_cannot_be_written_is_one_message():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fedprof", "tasks"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("fedprof: ")
    assert len(done.stderr.splitlines()) == 1
