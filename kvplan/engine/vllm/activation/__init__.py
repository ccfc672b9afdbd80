"""The memory that vLLM's profile run needs for a moment: closed forms of the architecture, by release and runner."""

from kvplan.engine.vllm.activation.peak import Peak, Run, profile_peak

__all__ = ["Peak", "Run", "profile_peak"]
