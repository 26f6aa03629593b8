"""``flowcheck-net schema``: the JSON Schema of an input file, for editors."""

import click


@click.command("schema")
@click.argument("kind", type=click.Choice(["topology", "job", "policy"]))
def command(kind: str) -> None:
    """Print the JSON Schema of a topology, job or policy file.

    \b
    Editors with a YAML language server use it when the file begins with
      # yaml-language-server: $schema=topology.schema.json

    Example: flowcheck-net schema topology > topology.schema.json
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.spec.load import json_schema

    emit_json(json_schema(kind))
