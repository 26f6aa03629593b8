"""``flowcheck-net completion``: the shell completion script."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "flowcheck-net"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(flowcheck-net completion bash)"        (in ~/.bashrc)
    zsh:  eval "$(flowcheck-net completion zsh)"         (in ~/.zshrc)
    fish: flowcheck-net completion fish | source         (in config.fish)
    """  # noqa: D301 - click wants the real backspace character
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    root = ctx.find_root().command
    click.echo(kind(root, {}, _PROGRAM, "_FLOWCHECK_NET_COMPLETE").source())
