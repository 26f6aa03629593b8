"""``flowcheck-net checkpoint``: from laid gradients to the trainer's state; one lazily loaded command a job."""

from typing import ClassVar

import click

from flowcheck_net.cli.main import LazyGroup


class CheckpointGroup(LazyGroup):
    """What can be done with a replica."""

    commands_by_name: ClassVar[dict[str, tuple[str, str]]] = {
        "replay": (
            "flowcheck_net.cli.checkpoint_replay:command",
            "Gradients onto a checkpoint: the new one.",
        ),
        "follow": (
            "flowcheck_net.cli.checkpoint_follow:command",
            "A replica beside a running trainer, step by step.",
        ),
        "inventory": (
            "flowcheck_net.cli.checkpoint_inventory:command",
            "Every object of a checkpoint, and its source.",
        ),
        "publish": (
            "flowcheck_net.cli.checkpoint_publish:command",
            "Replay, and publish the last step that is proven.",
        ),
        "status": (
            "flowcheck_net.cli.checkpoint_store:status",
            "Training, replica and stored step, and why they differ.",
        ),
        "verify": (
            "flowcheck_net.cli.checkpoint_store:verify",
            "Are published checkpoints what they were?",
        ),
        "restore": (
            "flowcheck_net.cli.checkpoint_store:restore",
            "Copy a published checkpoint out.",
        ),
        "forecast": (
            "flowcheck_net.cli.checkpoint_store:forecast",
            "Will the queue of steps stay bounded?",
        ),
        "compare": (
            "flowcheck_net.cli.checkpoint_compare:command",
            "Ways to checkpoint, measured side by side.",
        ),
        "listen": (
            "flowcheck_net.cli.checkpoint_listen:command",
            "Take what the trainer says of its steps.",
        ),
    }


@click.group("checkpoint", cls=CheckpointGroup)
def command() -> None:
    """Keep a copy of the trainer's state by replaying its optimizer on gradients seen on the wire.

    A step is applied only when every byte of its gradient is proven. All but inventory, listen, status and forecast
    need PyTorch: pip install 'flowcheck-net[checkpoint]'.
    """
