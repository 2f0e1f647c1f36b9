"""FedProf's selection with Adam on the server: which of FedADAM's gain and FedProf's adds to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedprof.algorithms.aggregation import ServerAdam
from fedprof.algorithms.fedprof import FedProf


@dataclass(frozen=True)
class FedProfAdam(FedProf):
    """Selection by score, Adam on the mean update."""

    name: ClassVar[str] = "fedprof-adam"
    citation: ClassVar[str] = "Wu et al. 2023; Leroy et al. 2019"
    server_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    """Adam's rate on the server; this default suits GasTurbine."""

    @property
    def combines(self) -> ServerAdam:
        """Adam on the mean update."""
        return ServerAdam(self.server_rate)
