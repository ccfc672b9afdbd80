"""A trace against the planned pool, as vLLM 0.33's own scheduler would run it.

Where requests come from: trace/, synthetic, sources. What the engine is told: settings, clock, and from a plan setup,
step_model, deployment. The rules, step by step, as the executable definition: content, blocks, tables, manager, live,
scheduler, engine. The same figures by skipping what does not change: tree, extents, event_cache, event_live, decoders,
event. What comes out: series, summary, quantiles, sinks. What is asked of it: run, tasks, baselines, static, promise,
answers, advice.
"""
