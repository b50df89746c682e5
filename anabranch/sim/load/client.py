"""The table of kinds, from which the world makes clients."""

from __future__ import annotations

from typing import Final

from anabranch.sim.load.administrators import (
    Administrator,
    Configurer,
    Deleter,
    Expirer,
    GroupAdministrator,
    LastIdKeeper,
    PairConfigurer,
    Renamer,
)
from anabranch.sim.load.base import Client, Modes
from anabranch.sim.load.consumers import GroupConsumer
from anabranch.sim.load.producers import IdempotentProducer, PlainProducer, TwinProducer
from anabranch.sim.load.readers import Looker, StreamReader
from anabranch.sim.load.synchronous import SynchronousWriter
from anabranch.sim.load.transactions import Transactor
from anabranch.sim.load.trimming import Trimmer
from anabranch.sim.plan import ClientPlan

__all__ = ["KINDS", "Client", "Modes", "make"]

KINDS: Final[dict[str, type[Client]]] = {
    "producer": PlainProducer,
    "idempotent-producer": IdempotentProducer,
    "twin-producer": TwinProducer,
    "consumer": GroupConsumer,
    "reader": StreamReader,
    "looker": Looker,
    "trimmer": Trimmer,
    "deleter": Deleter,
    "renamer": Renamer,
    "last-id-keeper": LastIdKeeper,
    "expirer": Expirer,
    "group-administrator": GroupAdministrator,
    "pair-configurer": PairConfigurer,
    "configurer": Configurer,
    "administrator": Administrator,
    "transactor": Transactor,
    "synchronous-writer": SynchronousWriter,
}


def make(plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> Client:
    """The client that `plan` describes. `modes`: region_id → its crdt-xadd-id-uniqueness-mode."""
    return KINDS[plan.kind](plan, regions, modes)
