"""Numbers of a capacity report as people read them."""


def show(value: float | None, unit: str) -> str:
    """A number with four digits and a decimal prefix; a share in percent."""
    if value is None:
        return "without bound"
    if unit == "":
        return f"{value:,.0f}" if float(value).is_integer() and value > 1 else f"{value:.4g}"
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if unit in ("B", "B/s", "bit/s") and abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    for words, size in (("d", 86400), ("h", 3600)):
        if unit == "s" and value >= size:
            return f"{value:.4g} s ({value / size:.3g} {words})"
    return f"{value:.4g} {unit}"
