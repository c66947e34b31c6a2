"""What `--slurm` sets, and how wrong options are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import UserError
from holdfast.experiments.job_engines import Local
from holdfast.experiments.job_options import JobOptions, check_jobs, job_options
from holdfast.experiments.reproduce_settings import ReproduceSettings


def test_options_of_all_jobs_and_of_a_kind() -> None:
    words = ["partition=gpu", "account=nlp", "time=90", "encoder.time=1-12", "attack.gpus=0", "encoder.gpus=a100:1"]
    found = job_options([*words, "mem=16GB", "cpus=4", "exclusive=true", "mail_type=END"])
    assert found["encoder"].for_sbatch() == {
        "time": "2160",
        "gpus-per-node": "a100:1",
        "cpus-per-task": "4",
        "mem": "16384M",
        "partition": "gpu",
        "account": "nlp",
        "exclusive": "true",
        "mail-type": "END",
    }
    assert found["attack"].words().startswith("--time=90 --cpus-per-task=4 --mem=16384M --partition=gpu")
    assert "--exclusive " in found["attack"].words()
    assert [found[kind].gpu_count for kind in ("encoder", "attack")] == [1, 0]
    assert job_options([])["encoder"].for_sbatch() == {"time": "240", "gpus-per-node": "1"}
    # A value for a kind wins wherever it stands.
    assert job_options(["encoder.time=5", "time=9"])["encoder"].minutes == 5
    # Clusters that know GPUs as generic resources only are asked for these.
    assert job_options(["gres=gpu:1"])["attack"].for_sbatch() == {"time": "240", "gres": "gpu:1"}
    assert job_options(["gres=gpu:1", "gpus=0"])["attack"].gpu_count == 1
    assert job_options(["gpu-freq=low", "new-option=1"])["attack"].others == {"gpu-freq": "low", "new-option": "1"}
    assert job_options(["setup=module load cuda"])["attack"] == JobOptions(setup="module load cuda")
    assert job_options(["mem=auto", "gpu-memory=24GB"])["encoder"] == JobOptions(measured=True, gpu_memory="24GB")
    assert job_options(["mem=auto"])["encoder"].words() == "--time=240 --gpus-per-node=1 --mem=(measured)"


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("8:00:00", 480), ("0:30:01", 31), ("1-12", 2160), ("2-1:30", 2970), ("1-00:00:30", 1441)],
)
def test_times(text: str, minutes: int) -> None:
    assert job_options([f"time={text}"])["attack"].minutes == minutes


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("partition", "takes NAME=VALUE or KIND.NAME=VALUE"),
        ("partition=", "takes NAME=VALUE"),
        ("=gpu", "takes NAME=VALUE"),
        ("--partition=gpu", "takes NAME=VALUE"),
        ("encodr.time=5", r"no kind of cells 'encodr' \(did you mean 'encoder'\?\): it is one of "),
        ("partion=gpu", r"--slurm partion: there is no 'partion' \(did you mean 'partition'\?\)"),
        ("array=0-5", "holdfast sets this option of sbatch itself"),
        ("gpus-per-node=2", "use gpus"),
        ("gpus=2", "takes 0, 1 or TYPE:1, since a cell uses at most one GPU"),
        ("time=8h", r"takes minutes \(90\), H:MM:SS"),
        ("time=0", "takes minutes"),
        ("time=" + "9" * 30, "takes minutes"),
        ("cpus=0", "from 1 to 1024"),
        ("cpus=²", "from 1 to 1024"),
        ("mem=lots", "takes a memory such as 16GB"),
        ("gpu-memory=0", "takes a memory such as 16GB"),
        ("gpu-memory=0.024TB", "takes a memory such as 16GB"),  # which the measurement cannot read
        ("comment=a\n#SBATCH --uid=0", "not printable"),
    ],
)
def test_wrong_options_are_one_line(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        job_options([word])


def test_the_settings_of_jobs_are_checked_together() -> None:
    given = ("adcl/table1", "smoke", Path("o"))
    with pytest.raises(UserError, match=r"--slurm time is given twice"):
        check_jobs(ReproduceSettings(*given, executor="slurm", slurm=["time=5", "time=6"]))
    with pytest.raises(UserError, match="--slurm is for --executor"):
        check_jobs(ReproduceSettings(*given, slurm=["time=5"]))
    with pytest.raises(UserError, match="--on-stop cancel is for --executor"):
        check_jobs(ReproduceSettings(*given, on_stop="cancel"))
    with pytest.raises(UserError, match="--retries 3 is for --executor"):
        check_jobs(ReproduceSettings(*given, retries=3))
    with pytest.raises(UserError, match=r"--executor does not take 'slrum' \(did you mean 'slurm'"):
        check_jobs(ReproduceSettings(*given, executor="slrum"))
    with pytest.raises(UserError, match="--on-stop does not take 'kill'"):
        check_jobs(ReproduceSettings(*given, executor="local", on_stop="kill"))
    check_jobs(ReproduceSettings(*given))


def test_a_job_of_an_earlier_call_keeps_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'holdfast[cluster]'")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(Local, "ended", lambda self, job: False)
    engine = Local(tmp_path, retries=1, most=2)
    engine._gpu_file("123").parent.mkdir(parents=True)
    engine._gpu_file("123").write_text("0")
    assert engine._free_gpu() == 0
    assert engine.known("123") is not None
    assert engine.known("124") is not None
    assert engine._free_gpu() == 1
