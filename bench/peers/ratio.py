"""When a ratio of two speeds may be printed (docs/development/performance.md, section 8): both programs made the same ids, or
somebody says why they did not. Pure: no clock, no model."""


def first_difference(ours, theirs):
    """Index from 0 of the first id that differs; None where all are the same and as many."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return i
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def spread(values):
    """Median and quartiles (linear between order statistics, as engine/base/quantile.h)."""
    values = sorted(values)

    def quantile(q):
        at = (len(values) - 1) * q
        low = int(at)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (at - low)

    return {"count": len(values), "median": quantile(0.5), "low": quantile(0.25), "high": quantile(0.75)}


def verdict(ours, theirs, because=None):
    """What may be said of two programs that ran in turns.

    ours, theirs: {"ids": the generated ids, "rates": tokens a second, one a round, in the order of the rounds}.
    because: why the ids may differ, or None.
    Gives a dict with "ratio" (ours / theirs, the median over the rounds, with quartiles), or with "refused"."""
    if len(ours["rates"]) != len(theirs["rates"]) or not ours["rates"]:
        raise ValueError("both sides need the same number of rounds, at least one")
    found = {"first_difference": first_difference(ours["ids"], theirs["ids"])}
    at = found["first_difference"]
    if at is not None and not (because or "").strip():
        a, b = ours["ids"][at:at + 1], theirs["ids"][at:at + 1]
        found["refused"] = (f"the generated ids differ from token {at + 1} on (ours {a or 'ended'}, theirs {b or 'ended'}): "
                            "another text may be another amount of work. --because says why they may differ")
        return found
    if at is not None:
        found["because"] = because.strip()
    found["ratio"] = spread([a / b for a, b in zip(ours["rates"], theirs["rates"])])
    return found
