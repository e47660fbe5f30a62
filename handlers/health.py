"""The Health and Model objects: what the engine is and does, in the contract's words."""

from __future__ import annotations

from typing import Protocol

from engine.identity import Identity
from engine.messages import Ready
from generated.models import Health, Model, RoutedExperts
from handlers.metrics import ObservedEngine


class DescribedEngine(ObservedEngine, Protocol):
    """What the objects are read from (see engine.engine.Engine)."""

    @property
    def loaded(self) -> Ready | None:
        """What is known of the model once it is loaded."""

    @property
    def identity(self) -> Identity | None:
        """Its fingerprints, once it is loaded."""


def describe_health(engine: DescribedEngine) -> Health:
    """Describe the present state; what is not known yet is null."""
    now, identity = engine.health(), engine.identity
    health = Health(
        status="ok" if now.ready else "loading",
        live_rows=now.running,
        waiting=now.waiting,
        cache_bytes=engine.stats.host_cache_bytes + engine.stats.state_point_bytes,
        host_cache_bytes=engine.stats.host_cache_bytes,
        snapshot_bytes=engine.stats.state_point_bytes,
        host_cache_cap_bytes=_host_cache_cap(engine),
        host_cache_evictions=engine.stats.host_cache_evictions,
        cache_namespace=identity.cache_namespace if identity else None,
        deployment_id=identity.deployment_id if identity else None,
        component_set_sha=identity.component_set_sha if identity else None,
        certification="none",
        compiles_after_ready=engine.stats.compiles_after_ready if engine.loaded else None,
        routed_experts=_routed_experts(engine.loaded),
        worker_restarts=now.worker_restarts,
    )
    if now.worker_pid is not None:
        # The contract has no null here.
        health.worker_pid = now.worker_pid
    return health


def _routed_experts(loaded: Ready | None) -> RoutedExperts | None:
    if not loaded or not loaded.routed_layers:
        return None
    why = "There is no expert kernel of its own; the model's class computes them."
    return RoutedExperts(
        path="exact", kernel=None, sites={"exact": loaded.routed_layers}, exact_why=why
    )


def _host_cache_cap(engine: DescribedEngine) -> int:
    loaded = engine.loaded
    return 0 if loaded and not loaded.keeps_prompts else engine.config.cache_ram


def describe_model(engine: DescribedEngine) -> Model:
    """Describe the model; its sizes are left out until it is loaded."""
    config = engine.config
    model = Model(
        id=config.model.id,
        object="model",
        owned_by="mashbox-labs",
        created=0,
        max_model_len=config.ctx,
        weights=config.model.path.name,
        prefix_cache=True,
        slots=config.slots,
        cache_ram_mib=_host_cache_cap(engine) // 2**20,
    )
    if loaded := engine.loaded:
        model.gb = round(loaded.weight_bytes / 1e9, 3)
        model.bpw = round(loaded.bits_per_weight, 3)
    return model
