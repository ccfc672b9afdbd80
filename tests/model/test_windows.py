"""Which layers slide: by layer types, by a period, by a string, by a list of flags; and what shares a cache."""

import pytest
from model.reading import runs, shape_of

import kvplan
from kvplan.errors import InvalidConfig
from kvplan.model.spec import Chunked, Full, Shared, Window

BASE = {"num_hidden_layers": 12, "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 64, "sliding_window": 100}  # fmt: skip
MIXED = ["sliding_attention", "full_attention"] * 6
F, S = (Full(2, 64, 64),), (Window(2, 64, 64, 100),)


@pytest.mark.parametrize(
    ("architecture", "more", "layers"),
    [
        ("LlamaForCausalLM", {"layer_types": MIXED}, [(1, S), (1, F)] * 6),
        ("LlamaForCausalLM", {"layer_types": ["sliding_attention"] * 12}, [(12, S)]),
        ("LlamaForCausalLM", {"layer_types": ["full_attention"] * 12}, [(12, F)]),
        # these classes know no layer types: a mixed list means no window at all
        ("MixtralForCausalLM", {"layer_types": MIXED}, [(12, F)]),
        ("MixtralForCausalLM", {"layer_types": ["sliding_attention"] * 12}, [(12, S)]),
        ("Gemma2ForCausalLM", {}, [(1, S), (1, F)] * 6),
        ("Gemma3ForCausalLM", {}, [(5, S), (1, F)] * 2),
        ("Gemma3ForCausalLM", {"sliding_window_pattern": 3}, [(2, S), (1, F)] * 4),
        ("Gemma3ForCausalLM", {"use_bidirectional_attention": True}, [(5, (Window(2, 64, 64, 51),)), (1, F)] * 2),
        ("GptOssForCausalLM", {}, [(1, S), (1, F)] * 6),
        ("GptOssForCausalLM", {"layer_types": MIXED[::-1]}, [(1, S), (1, F)] * 6),  # vLLM goes by the layer's number
        ("Cohere2ForCausalLM", {}, [(3, (Window(2, 64, 64, 101),)), (1, F)] * 3),  # the window and the token itself
        ("Cohere2MoeForCausalLM", {"first_k_dense_replace": 2}, [
            (2, F), (3, (Window(2, 64, 64, 101),)), (1, F), (3, (Window(2, 64, 64, 101),)), (1, F),
            (2, (Window(2, 64, 64, 101),)),
        ]),
        ("CohereCompassForCausalLM", {"layer_types": MIXED}, [(1, S), (1, F)] * 6),
        ("Olmo3ForCausalLM", {}, [(3, S), (1, F)] * 3),
        ("CwmForCausalLM", {}, [(1, F), (3, S)] * 3),
        ("GraniteSWAForCausalLM", {}, [(1, F), (3, S)] * 3),
        ("AfmoeForCausalLM", {"global_attn_every_n_layers": 6}, [(5, S), (1, F)] * 2),
        ("Exaone4ForCausalLM", {"sliding_window_pattern": 4}, [(3, S), (1, F)] * 3),
        ("Exaone4ForCausalLM", {"sliding_window_pattern": "LG"}, [(1, S), (1, F)] * 6),
        ("Exaone4ForCausalLM", {"sliding_window_pattern": "LLLLL"}, [(11, S), (1, F)]),  # the last layer is full
        ("Exaone4ForCausalLM", {"sliding_window": None}, [(12, F)]),
        ("SmolLM3ForCausalLM", {"no_rope_layer_interval": 4}, [(12, F)]),
        ("SmolLM3ForCausalLM", {"no_rope_layer_interval": 4, "use_sliding_window": True}, [(3, F), (1, S)] * 3),
        ("Dots1ForCausalLM", {"max_window_layers": 8}, [(8, F), (4, S)]),
        ("MellumForCausalLM", {}, [(12, F)]),
        ("BeamForCausalLM", {}, [(12, S)]),
        ("MuseGlimmerForCausalLM", {}, [(3, S), (1, F)] * 3),
        ("Plamo3ForCausalLM", {"interleaved_sliding_window": [None, 100] * 6}, [(1, F), (1, S)] * 6),
        ("PanguEmbeddedForCausalLM", {"interleaved_sliding_window": [100, 0, 0]}, [(1, S), (2, F)] * 4),
        ("Step3p5ForCausalLM", {"layer_types": [*MIXED, "sliding_attention"]}, [(1, S), (1, F)] * 6),
        ("DomynEdgeForCausalLM", {"window_sizes": [[99, 0], [-1, 0]] * 6}, [(1, S), (1, F)] * 6),
    ],
)  # fmt: skip
def test_which_layers_slide(architecture, more, layers):
    assert runs(shape_of(architecture, {**BASE, **more}).layers) == layers


CHUNK = (Chunked(2, 64, 64, 128),)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({"no_rope_layer_interval": 4}, [(3, CHUNK), (1, F)] * 3),
        ({"no_rope_layers": [1, 0] * 6}, [(1, CHUNK), (1, F)] * 6),
        ({"no_rope_layers": [], "no_rope_layer_interval": 3}, [(2, CHUNK), (1, F)] * 4),
        ({"no_rope_layer_interval": 4, "attention_chunk_size": None}, [(12, F)]),
    ],
)
def test_chunks(more, layers):
    assert runs(shape_of("Llama4ForCausalLM", {**BASE, "attention_chunk_size": 128, **more}).layers) == layers


def test_gemma_3n_shares_by_type():
    shape = shape_of("Gemma3nForCausalLM", {**BASE, "num_hidden_layers": 10, "num_kv_shared_layers": 5})
    assert runs(shape.layers) == [(4, S), (1, F), (4, (Shared(3),)), (1, (Shared(4),))]


def test_gemma_4_has_other_heads_in_its_full_layers():
    more = {"global_head_dim": 128, "num_global_key_value_heads": 1, "attention_k_eq_v": True}
    full = (Full(1, 128, 128),)
    shape = shape_of("Gemma4ForCausalLM", {**BASE, **more, "num_kv_shared_layers": 6})
    assert runs(shape.layers) == [(5, S), (1, full), (5, (Shared(4),)), (1, (Shared(5),))]


def test_gemma_4_by_layer():
    more = {"num_hidden_layers": 2, "per_layer_config": {"00": {"head_dim": 128}, "1": {"num_key_value_heads": 4}}}
    shape = shape_of("Gemma4ForCausalLM", {**BASE, **more, "layer_types": ["full_attention"] * 2})
    assert shape.layers == ((Full(2, 128, 128),), (Full(4, 64, 64),))


def test_mimo_v2_slides_with_other_heads():
    more = {"v_head_dim": 32, "swa_num_key_value_heads": 4, "swa_head_dim": 96, "swa_v_head_dim": 48,
            "sliding_window_size": 50, "hybrid_layer_pattern": [0, 1] * 6, "attention_chunk_size": 50,
            "add_swa_attention_sink_bias": True}  # fmt: skip
    shape = shape_of("MiMoV2FlashForCausalLM", {**BASE, **more})
    slides = (Window(4, 96, 48, 50),)
    assert runs(shape.layers) == [(1, (Full(2, 64, 32),)), (1, slides)] * 6
    assert (shape.sinks, shape.draft_layers) == (True, (slides,))


@pytest.mark.parametrize(
    ("architecture", "more", "layers"),
    [
        ("IQuestLoopCoderForCausalLM", {"sliding_window": None, "head_dim": None, "loop_num": 3, "loop_window_size": 8},
         [(12, (Full(2, 128, 128),)), (24, (Window(2, 128, 128, 8),))]),
        ("HrmTextForCausalLM", {"num_layers_per_stack": 2, "H_cycles": 2, "L_cycles": 3}, [(16, (Full(8, 64, 64),))]),
        ("DoryForCausalLM", {"num_hidden_layers": 4, "n_input_layers": 2, "n_recurrent_loops": 2},
         [(1, S), (1, ()), (1, S * 2), (1, ())]),
        ("DoryForCausalLM", {"num_hidden_layers": 4, "n_recurrent_loops": 2, "recurrent_kv_cache_mode": "last_loop"},
         [(1, S), (1, ())] * 2),
    ],
)  # fmt: skip
def test_layers_that_run_several_times(architecture, more, layers):
    assert runs(shape_of(architecture, {**BASE, **more}).layers) == layers


@pytest.mark.parametrize(
    ("architecture", "more", "named"),
    [
        ("Llama4ForCausalLM", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("Gemma3nForCausalLM", {"num_kv_shared_layers": 12}, "num_kv_shared_layers"),
        ("Exaone4ForCausalLM", {"sliding_window_pattern": "LXG"}, "sliding_window_pattern"),
        ("MiMoV2FlashForCausalLM", {"hybrid_layer_pattern": [0]}, "hybrid_layer_pattern"),
        ("Plamo3ForCausalLM", {"interleaved_sliding_window": [100]}, "interleaved_sliding_window"),
        ("DomynEdgeForCausalLM", {"window_sizes": [3] * 12}, "window_sizes"),
        ("PanguEmbeddedForCausalLM", {"param_sink_number": 4}, "param_sink_number"),
        ("HunYuanMoEV1ForCausalLM", {"use_cla": True}, "use_cla"),
    ],
)
def test_contradictions_name_their_fields(architecture, more, named):
    with pytest.raises(InvalidConfig, match=named):
        shape_of(architecture, {**BASE, **more})


@pytest.mark.parametrize(
    ("architecture", "more", "flags"),
    [
        ("GptOssForCausalLM", {}, (True, False)),
        ("GraniteForCausalLM", {}, (False, False)),
        ("GraniteForCausalLM", {"layer_types": MIXED}, (True, False)),
        ("Gemma2ForCausalLM", {"attn_logit_softcapping": 50.0}, (False, True)),
        ("Gemma2ForCausalLM", {"attn_logit_softcapping": None}, (False, False)),
        ("Grok1ForCausalLM", {}, (False, True)),
    ],
)
def test_sinks_and_caps(architecture, more, flags):
    shape = shape_of(architecture, {**BASE, **more})
    assert (shape.sinks, shape.softcap) == flags


@pytest.mark.parametrize("model", ["google/gemma-3-4b-it", "google/gemma-3-27b-it"])
def test_gemma_3_gives_its_length_already_stretched(model):
    length = kvplan.load_model(model).length
    assert length.limit == 131_072
    assert [rope.factor for rope in length.ropes] == [None]
