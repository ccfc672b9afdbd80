"""A trace against the planned pool, as vLLM 0.33's own scheduler would run it.

    trace, synthetic   where requests come from              -> Request
    settings           what the engine is told               -> Settings
    content, blocks, tables, scheduler, engine               the rules, step by step: the executable definition
    chain, lru, event  the same figures, by skipping what does not change
    replay             which of the two runs, and the arrivals
    series, summary    what comes out: a line a step, a line a request, totals and percentiles
"""
