"""One schema for everything that can be set: presets, a user's TOML file and ``--set`` all pass through it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1e15)]  # sums and products of such numbers are finite
Count = Annotated[int, Field(ge=1, lt=2**31, strict=True)]
Parameter = bool | int | float | str | list[int] | list[float]


class Strict(BaseModel):
    """Unknown keys are errors, numbers are finite; values never change after they were checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Normal(Strict):
    """A normal distribution, truncated below at ``floor`` times its mean (redrawn, never clipped)."""

    mean: Positive
    std: Annotated[float, Field(ge=0)]
    floor: Annotated[float, Field(gt=0, lt=1)] = 0.05


class Partition(Strict):
    """How the training samples are dealt out to the clients."""

    kind: Literal["iid", "sizes", "dominant", "dirichlet", "shards", "given"] = "iid"
    mean: Positive | None = Field(None, description="sizes: mean number of samples a client")
    std: Annotated[float, Field(ge=0)] | None = Field(None, description="sizes: its standard deviation")
    share: Share | None = Field(None, description="dominant: share of the dominant class")
    concentration: Positive | None = Field(None, description="dirichlet: smaller is less alike")
    shards: Count | None = Field(None, description="shards: how many a client gets")

    @model_validator(mode="after")
    def complete(self) -> Self:
        """Every kind has the numbers it needs."""
        needs = {
            "sizes": ("mean", "std"),
            "dominant": ("share",),
            "dirichlet": ("concentration",),
            "shards": ("shards",),
        }
        missing = [name for name in needs.get(self.kind, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"partition.kind = '{self.kind}' also needs {' and '.join(missing)}")
        return self


class Data(Strict):
    """Where the data come from and how many of them are used."""

    source: str = Field(description="a public data set by name, 'folder' (with path), or package.module:function")
    path: Path | None = Field(
        None, description="folder, seen from where one works: one data set a client, and the server's 'validation'"
    )
    clients: Count = Field(description="client population N")
    samples: Count | None = Field(None, description="samples a client; default: all there are, dealt out evenly")
    recycle: bool = Field(False, description="let clients share samples where there are too few for all")
    validation: Count | None = Field(None, description="validation set size |D^V|; default: the source's own test set")
    standardise: Literal["none", "pixels", "features", "all"] = Field(
        "none", description="pixels: one mean and deviation; features: one a column; all: features and targets"
    )
    partition: Partition = Field(
        default_factory=lambda data: Partition(kind="given" if data.get("source") == "folder" else "iid"),
        description="default: iid; of a folder, given",
    )

    @model_validator(mode="after")
    def consistent(self) -> Self:
        """A folder is dealt out already; nothing but a folder has a path."""
        if (self.source == "folder") != (self.path is not None):
            raise ValueError("source = 'folder' needs path, and path needs source = 'folder'")
        if self.source == "folder" and self.partition.kind != "given":
            raise ValueError("a folder's clients hold what it says: leave partition out, or make its kind 'given'")
        if self.partition.kind in {"sizes", "dirichlet", "shards"} and self.samples is not None:
            raise ValueError(
                f"partition.kind = '{self.partition.kind}' decides how many samples a client gets: leave samples out"
            )
        if self.partition.kind == "given" and (self.samples is not None or self.validation is not None):
            raise ValueError("where the partition is given, samples and validation are too: leave them out")
        return self


class Damage(Strict):
    """A kind of bad data: the share of clients it befalls, and its strengths."""

    model_config = ConfigDict(extra="allow", frozen=True)
    share: Share


class Model(Strict):
    """The model h_theta, its initialisation, and the layer whose representations are profiled."""

    name: str = Field(description="a model by name, or package.module:function")
    layer: str | None = Field(None, description="layer to profile; default: the model's own")
    initialisation: Literal["torch", "xavier"] | None = Field(None, description="default: the model's own")
    options: dict[str, Parameter] = Field(default_factory=dict)


class Training(Strict):
    """What a client does in a round."""

    epochs: Count = Field(description="local epochs E")
    batch: Count = Field(description="training batch size")
    evaluation_batch: Count = 128
    loss: Literal["mse", "nll", "ce"]
    rate: Positive = Field(description="learning rate eta in round 1")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="learning-rate decay a round")
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0


class Rounds(Strict):
    """T_max in each aggregation mode."""

    full: Count
    partial: Count


class Federation(Strict):
    """How a round is run and what counts as reached."""

    fraction: Annotated[float, Field(gt=0, le=1)] = Field(description="selection fraction C")
    goal: Share = Field(description="accuracy whose rounds, time and energy are reported")
    rounds: Rounds
    matching: Literal["plain", "client", "masked", "encrypted-mean"] = "plain"


class Fleet(Strict):
    """The clients' devices."""

    speed: Normal = Field(description="processor, GHz (s_k)")
    bandwidth: Normal = Field(description="downlink, MHz (bw_k)")
    snr_db: Annotated[float, Field(ge=-100, le=200)] = Field(description="signal-to-noise ratio, dB")


class Costs(Strict):
    """Constants of equations 10 to 16."""

    bits_per_sample: Positive
    cycles_per_bit: Positive
    model_megabytes: Positive = Field(description="model size on the air (msize), 1 MB = 8e6 bits")
    transmitter_watts: Positive = 0.75
    processor_watts: Positive = 0.7


class Conditions(Strict):
    """Mishaps beyond the paper; all off by default."""

    crash: Share = Field(0.0, description="probability that a selected client crashes while it trains")
    dropout: Share = Field(0.0, description="probability that a selected client never answers the call")
    notice: Positive = Field(10.0, description="seconds until the server notices that a client is out of reach or dead")
    deadline: Positive | None = Field(None, description="seconds after which the server stops waiting")
    availability: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of its period a client is reachable"
    )
    period: Positive = Field(3600.0, description="seconds of one availability period")
    bandwidth_variation: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="relative spread, drawn anew each round"
    )


class Settings(Strict):
    """A federated task, complete: the paper's Table 2 and what it leaves open."""

    name: Annotated[str, Field(pattern=r"^\w[\w. +-]*$", max_length=100, description="also the name of its folder")]
    title: str = ""
    data: Data
    damage: dict[str, Damage] = Field(default_factory=dict)
    model: Model
    training: Training
    federation: Federation
    fleet: Fleet
    costs: Costs
    conditions: Conditions = Conditions()
    algorithms: dict[str, dict[str, Parameter]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def consistent(self) -> Self:
        """Shares of damaged clients cannot exceed the whole."""
        total = sum(damage.share for damage in self.damage.values())
        if total > 1 + 1e-9:
            raise ValueError(f"the shares of damaged clients add up to {total:.2f}, more than 1")
        return self

    @property
    def cohort(self) -> int:
        """K = N * C, at least one client."""
        return max(1, round(self.data.clients * self.federation.fraction))
