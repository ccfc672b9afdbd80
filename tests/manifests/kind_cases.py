# ruff: noqa: E501  # manifests, whose lines are as wide as people write them
"""One small manifest a kind, in our own words, and what a reader must find in it: the table of test_kinds.py."""

from __future__ import annotations

from typing import Any

POD = """\
      containers:
        - name: server
          image: vllm/vllm-openai:v0.33.0
          args: [--model, org/m, -tp, "2"]
          resources: {limits: {nvidia.com/gpu: 2}}
"""

CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "workloads": (
        """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      initContainers:
        - {name: warm, image: vllm/vllm-openai:v1.0.0, args: [--model, not/this]}
      containers:
        - name: proxy
          image: proxy
          args: [--port=8000, --vllm-port=8200]
        - name: server
          image: vllm/vllm-openai:v0.33.0
          env:
            - {name: MODEL, value: org/m}
            - {name: ALL, value: "--max-model-len 8k $(MODEL)"}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}
          args: ["--model=$(MODEL)", -tp, "${TP}", --kv-cache-dtype=fp8, "--api-key=$(TOKEN)"]
          livenessProbe: {exec: {command: [vllm, serve, nor/this]}}
          resources:
            limits: {nvidia.com/gpu: "2"}
            requests: {nvidia.com/gpu: "2"}
""",
        [{
            "where": "Deployment/llama#server", "model": "org/m", "args": {"kv_cache_dtype": "fp8", "tensor_parallel_size": "${TP}"},
            "gpus": 2, "gpu": "nvidia-l4", "replicas": 3, "release": "0.33.0", "unresolved": ("TP", "TOKEN"),
        }],
    ),
    "workloads: a program in a block": (
        """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: c
      image: any
      command: [/bin/bash, -lc, --]
      args:
        - |
          ulimit -n 65536; export TP=4
          vllm serve org/m \\
            --tensor-parallel-size $TP \\
            --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}'
""",
        [{
            "model": "org/m", "role": "prefill", "lines": {"tensor_parallel_size": 13, "kv_transfer_config": 14},
            "args": {"tensor_parallel_size": 4, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}},
        }],
    ),
    "workloads: a patch": (
        """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec: {template: {spec: {containers: [{name: c, args: ["--model=$(MODEL)", --max-model-len=1200]}]}}}
""",
        [{"model": None, "args": {"max_model_len": 1200}, "unresolved": ("MODEL", "model"), "confidence": "heuristic"}],
    ),
    "workloads: GPUs by claim": (
        """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]
  containers:
    - {name: c, command: [vllm, serve, org/m], resources: {claims: [{name: gpus}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: four}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}]}}}
""",
        [{"model": "org/m", "gpus": 4}],
    ),
    "workloads: a list of objects": (
        """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec: {containers: [{name: c, command: [vllm, serve, org/m]}]}
""",
        [{"where": "Pod/p#c", "model": "org/m"}],
    ),
    "workloads: variables of a ConfigMap": (
        """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {MODEL: org/m, LEN: "4096"}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: c
      envFrom: [{configMapRef: {name: settings}}]
      env: [{name: L, valueFrom: {configMapKeyRef: {name: settings, key: LEN}}}]
      command: [sh, -c, "vllm serve $MODEL --max-model-len $L"]
""",
        [{"model": "org/m", "args": {"max_model_len": 4096}}],
    ),
    "workloads: a controller's template": (
        """\
apiVersion: ome.io/v1
kind: ClusterServingRuntime
metadata: {name: srt}
spec:
  engineConfig:
    runner:
      name: engine
      image: lmsysorg/sglang:v0.5.5
      command: [python3, -m, sglang.launch_server, --model-path, $(MODEL_PATH), --mem-frac, "0.9"]
      resources: {limits: {nvidia.com/gpu: 4}}
  routerConfig: {runner: {name: router, command: [python3, -m, sglang_router.launch_router]}}
""",
        [{
            "engine": "sglang", "model": "$(MODEL_PATH)", "args": {"mem_fraction_static": 0.9}, "gpus": 4, "release": "0.5.5",
            "unresolved": ("MODEL_PATH", "model", "$(MODEL_PATH)"), "where": "ClusterServingRuntime/srt#engine",
        }],
    ),
    "leader_worker_set": (
        """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: big}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: leader
            image: lmsysorg/sglang:latest
            command: [python3, -m, sglang.launch_server, --model-path, org/m, --tp, "2", --nnodes, $(LWS_GROUP_SIZE)]
            resources: {limits: {nvidia.com/gpu: "1"}}
    workerTemplate:
      spec:
        containers:
          - name: worker
            command: [python3, -m, sglang.launch_server, --model-path, org/m, --tp, "2", --nnodes, $(LWS_GROUP_SIZE)]
            resources: {limits: {nvidia.com/gpu: "1"}}
""",
        [{"engine": "sglang", "model": "org/m", "gpus": 1, "nodes": 2, "replicas": 2, "args": {"tensor_parallel_size": 2, "nnodes": 2}}],
    ),
    "ray_cluster": (
        """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: RayClusterFleet
metadata: {name: r1}
spec:
  replicas: 1
  template:
    spec:
      headGroupSpec:
        template:
          spec:
            containers:
              - {name: head, command: [bash, -lc, --], args: ["ray start; vllm serve /models/x -tp 16"],
                 resources: {limits: {nvidia.com/gpu: 8}}}
      workerGroupSpecs:
        - replicas: 1
          template:
            spec: {containers: [{name: w, args: ["ray start"], resources: {limits: {nvidia.com/gpu: 8}}}]}
""",
        [{
            "model": "/models/x", "source": "path", "gpus": 8, "nodes": 2, "replicas": 1, "args": {"tensor_parallel_size": 16},
            "unresolved": ("model", "/models/x"),
        }],
    ),
    "ray_service": (
        """\
apiVersion: ray.io/v1
kind: RayService
metadata: {name: ds}
spec:
  serveConfigV2: |
    applications:
      - import_path: ray.serve.llm:build_openai_app
        args:
          llm_configs:
            - model_loading_config: {model_id: served, model_source: org/m}
              accelerator_type: H100
              deployment_config: {num_replicas: 1}
              engine_kwargs:
                tensor_parallel_size: 8
                pipeline_parallel_size: 2
                max_model_len: 16384
  rayClusterConfig:
    headGroupSpec: {template: {spec: {containers: [{name: head}]}}}
    workerGroupSpecs:
      - {replicas: 2, template: {spec: {containers: [{name: w, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}
""",
        [{
            "model": "org/m", "served": "served", "gpu": "H100", "gpus": 8, "nodes": 2, "lines": {"max_model_len": 16},
            "args": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "max_model_len": 16_384}, "replicas": 1,
        }],
    ),
    "ray_service: a Python program": (
        """\
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  app.py: |
    args = AsyncEngineArgs(model=model, dtype="bfloat16", disable_log_requests=True, block_size=size)
---
apiVersion: ray.io/v1
kind: RayService
metadata: {name: vllm}
spec:
  serveConfigV2: |
    applications:
      - import_path: app:deployment
        runtime_env:
          env_vars: {MODEL_ID: org/m, MAX_MODEL_LEN: "8192", TRUST_REMOTE_CODE: "True", LD_LIBRARY_PATH: x}
        deployments: [{ray_actor_options: {num_gpus: 1}}]
""",
        [{
            "model": "org/m", "confidence": "heuristic", "gpus": 1,
            "args": {"max_model_len": 8192, "trust_remote_code": True, "dtype": "bfloat16", "enable_log_requests": False},
        }],
    ),
    "storm_service": (
        """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: pd}
spec:
  template:
    spec:
      roles:
        - {name: prefill, replicas: 1, template: {spec: {containers: [{name: p, command: [sh, -c], args: [vllm serve --model /m]}]}}}
        - {name: decode, replicas: 2, podGroupSize: 2,
           template: {spec: {containers: [{name: d, command: [vllm, serve, /m], resources: {limits: {nvidia.com/gpu: 1}}}]}}}
""",
        [{"role": "prefill", "model": "/m", "replicas": 1}, {"role": "decode", "replicas": 2, "nodes": 2, "gpus": 1}],
    ),
    "compose": (
        """\
x-gpu: &gpu
  deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["${CARDS:-0,1}"], capabilities: [gpu]}]}}}
services:
  cache: {image: redis, command: redis-server}
  vllm:
    image: ${IMAGE:-vllm/vllm-openai:v0.33.0}
    environment: {LEN: 4096}
    command: >
      --model ${MODEL:-org/m}
      --tensor-parallel-size ${TP:-2}
      --max-num-seqs ${SEQS}
    <<: *gpu
  shell:
    image: any
    environment: [EAGER, "NAME=org/n"]
    entrypoint:
      - bash
      - -c
      - |
        if x; then exec vllm serve $${NAME} $${EAGER:+--enforce-eager} "$$@"
        else exec vllm serve $${NAME} --port 1 "$$@"; fi
      - --
    command:
      - --max-model-len
      - "${LEN:-32k}"
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all}]}}}
  two: {image: lmsysorg/sglang, entrypoint: python3 -m sglang.launch_server, command: --model-path org/o --tp 1, gpus: [{count: 3}]}
""",
        [
            {
                "where": "services/vllm", "model": "org/m", "args": {"tensor_parallel_size": 2, "max_num_seqs": "${SEQS}"},
                "gpus": 2, "release": "0.33.0", "unresolved": ("SEQS",), "lines": {"tensor_parallel_size": 10},
            },
            {
                "where": "services/shell", "model": "org/n", "args": {"max_model_len": 32_000}, "gpus": None,
                "lines": {"max_model_len": 24},
            },
            {"engine": "sglang", "model": "org/o", "gpus": 3},
        ],
    ),
    "kserve": (
        """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: isvc}
spec:
  predictor:
    minReplicas: 1
    nodeSelector: {node.kubernetes.io/instance-type: g5.8xlarge}
    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 1}
    model:
      modelFormat: {name: huggingface}
      storageUri: pvc://models/llama
      args: [--model_name=llama, --max-model-len=1024]
      resources: {limits: {nvidia.com/gpu: "1"}}
""",
        [{
            "model": "pvc://models/llama", "source": "pvc", "gpu": "g5.8xlarge", "gpus": 1, "nodes": 2, "replicas": 1,
            "args": {"max_model_len": 1024, "pipeline_parallel_size": 2, "tensor_parallel_size": 1}, "served": "llama",
        }],
    ),
    "kserve: containers": (
        """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: isvc}
spec: {predictor: {containers: [{name: c, image: vllm/vllm-openai:v0.33.0, args: [org/m]}]}}
""",
        [{"model": "org/m", "where": "InferenceService/isvc#c"}],
    ),
    "llm_inference_service": (
        """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: ds}
spec:
  model: {uri: "hf://org/m", name: served}
  replicas: 1
  parallelism: {data: 32, dataLocal: 8, expert: true, tensor: 1}
  template:
    containers:
      - name: main
        env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192 --enforce-eager"}]
        resources: {limits: {nvidia.com/gpu: "8"}}
  worker: {containers: [{name: main, env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192"}]}]}
""",
        [{
            "model": "org/m", "served": "served", "gpus": 8, "nodes": 4, "replicas": 1,
            "args": {
                "data_parallel_size": 32, "data_parallel_size_local": 8, "enable_expert_parallel": True,
                "tensor_parallel_size": 1, "max_model_len": 8192, "enforce_eager": True,
            },
        }],
    ),
    "llm_inference_service: prefill apart": (
        """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: pd}
spec:
  model: {uri: "hf://org/m"}
  template: {containers: [{name: main, args: [--max-model-len, "1"], resources: {limits: {nvidia.com/gpu: 1}}}]}
  prefill: {replicas: 2, parallelism: {tensor: 2}, template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}}
""",
        [
            {"role": "decode", "model": "org/m", "args": {"max_model_len": 1}, "gpus": 1},
            {"role": "prefill", "args": {"tensor_parallel_size": 2}, "gpus": 2, "replicas": 2},
        ],
    ),
    "production_stack": (
        """\
servingEngineSpec:
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.33.0
      modelURL: org/m
      replicaCount: 2
      requestGPU: "4"
      vllmConfig: {v1: 1, tensorParallelSize: 4, maxModelLen: 8192, enablePrefixCaching: false, extraArgs: [--enforce-eager]}
    - name: ray-prefill
      modelURL: org/n
      replicaCount: 1
      requestGPU: 2
      raySpec: {headNode: {requestGPU: 2}}
      vllmConfig: {tensorParallelSize: 2, pipelineParallelSize: 2}
      lmcacheConfig: {kvRole: kv_producer}
""",
        [
            {
                "where": "servingEngineSpec.modelSpec[0]/llama", "model": "org/m", "gpus": 4, "replicas": 2, "release": "0.33.0",
                "args": {
                    "tensor_parallel_size": 4, "max_model_len": 8192, "enable_prefix_caching": False, "enforce_eager": True,
                },
            },
            {"model": "org/n", "gpus": 2, "nodes": 2, "role": "prefill"},
        ],
    ),
    "production_stack: VLLMRuntime": (
        """\
apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRuntime
metadata: {name: rt}
spec:
  model: {modelURL: org/m, enableLoRA: false, maxModelLen: 4096, dtype: bfloat16}
  vllmConfig: {tensorParallelSize: 2, gpuMemoryUtilization: 0.8, extraArgs: [--enforce-eager]}
  deploymentConfig: {replicas: 2, resources: {gpu: "2"}, image: {name: "vllm/vllm-openai:v0.33.0"}}
""",
        [{
            "model": "org/m", "gpus": 2, "replicas": 2, "release": "0.33.0",
            "args": {"max_model_len": 4096, "tensor_parallel_size": 2, "gpu_memory_utilization": 0.8, "enforce_eager": True},
        }],
    ),
    "llm_d": (
        """\
modelArtifacts: {name: org/m, uri: "hf://org/m"}
decode:
  replicas: 1
  parallelism: {tensor: 2, data: 4, dataLocal: 2}
  containers: [{name: vllm, modelCommand: vllmServe, args: [--enforce-eager]}]
prefill: {create: false, containers: [{name: vllm, modelCommand: vllmServe}]}
""",
        [{
            "where": "decode.containers[0]/vllm", "model": "org/m", "role": "decode", "gpus": 4, "nodes": 2,
            "args": {"tensor_parallel_size": 2, "data_parallel_size": 4, "enforce_eager": True},
        }],
    ),
    "dynamo": (
        """\
apiVersion: v1
kind: ConfigMap
metadata: {name: opts}
data:
  config.yaml: |
    tensor_parallel_size: 8
    kv_cache_config: {dtype: fp8, free_gpu_memory_fraction: 0.8}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  services:
    Frontend: {componentType: frontend, extraPodSpec: {mainContainer: {image: x}}}
    TrtllmDecodeWorker:
      replicas: 1
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "8"}}
      extraPodSpec:
        mainContainer:
          command: [/bin/sh, -c]
          args: ["python3 -m dynamo.trtllm --model-path /m --tensor-parallel-size 1 --extra-engine-args /config/config.yaml"]
          volumeMounts: [{name: v, mountPath: /config}]
        volumes: [{name: v, configMap: {name: opts}}]
""",
        [{
            "engine": "tensorrt-llm", "model": "/m", "gpus": 8, "nodes": 2, "role": "decode", "lines": {"tensor_parallel_size": 6},
            "args": {"tensor_parallel_size": 8, "kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.8}},
        }],
    ),
    "kaito": (
        """\
apiVersion: v1
kind: ConfigMap
metadata: {name: params}
data:
  inference_config.yaml: |
    max_probe_steps: 6
    vllm:
      max-model-len: 131072
      tensor-parallel-size: 2
      swap-space: 4
---
apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: ws}
resource: {instanceType: Standard_NC24ads_A100_v4, count: 1}
inference: {preset: {name: deepseek-r1-distill-qwen-14b}, config: params}
""",
        [{
            "model": "deepseek-r1-distill-qwen-14b", "source": "kaito preset", "gpus": 1, "gpu": "Standard_NC24ads_A100_v4",
            "args": {"max_model_len": 131_072, "tensor_parallel_size": 2, "swap_space": 4}, "lines": {"max_model_len": 8},
        }],
    ),
    "nim": (
        """\
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMService
metadata: {name: n}
spec:
  image: {repository: nvcr.io/nim/org/m, tag: "1.7.3"}
  env: [{name: NIM_MAX_MODEL_LEN, value: "8192"}]
  replicas: 1
  resources: {limits: {nvidia.com/gpu: 8}}
  multiNode: {parallelism: {pipeline: 2, tensor: 8}}
""",
        [{
            "engine": "nim", "model": "org/m", "source": "nim image", "gpus": 8, "nodes": 2,
            "args": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "max_model_len": 8192}, "confidence": "partial",
        }],
    ),
    "kubeai": (
        """\
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: k}
spec: {url: "hf://org/m", engine: VLLM, resourceProfile: "nvidia-gpu-l4:2", minReplicas: 1, args: [--max-model-len=4096, -tp=2]}
""",
        [{"model": "org/m", "gpu": "l4", "gpus": 2, "replicas": 1, "args": {"max_model_len": 4096, "tensor_parallel_size": 2}}],
    ),
    "skypilot": (
        """\
envs: {MODEL: org/m}
resources: {accelerators: {H200:8, H100:8}, image_id: "docker:vllm/vllm-openai:v0.33.0"}
num_nodes: 2
run: |
  TP=$(($SKYPILOT_NUM_GPUS_PER_NODE * $SKYPILOT_NUM_NODES))
  if [ "$SKYPILOT_NODE_RANK" == "0" ]; then
    vllm serve $MODEL \\
      --tensor-parallel-size $TP
  else
    sleep infinity
  fi
service: {replica_policy: {min_replicas: 1}}
""",
        [{
            "model": "org/m", "gpus": 8, "nodes": 2, "gpu": None, "replicas": 1, "release": "0.33.0",
            "args": {"tensor_parallel_size": 16}, "lines": {"tensor_parallel_size": 8},
        }],
    ),
    "engine_config": (
        """\
 # every line starts with a blank
 no-enable-prefix-caching: true
 max-num-batched-tokens: 8192
 speculative-config: '{"model": "org/draft", "num_speculative_tokens": 7}'
""",
        [{
            "engine": "vllm", "model": None, "unresolved": ("model",),
            "args": {
                "enable_prefix_caching": False, "max_num_batched_tokens": 8192,
                "speculative_config": {"model": "org/draft", "num_speculative_tokens": 7},
            },
        }],
    ),
    "engine_config: SGLang": (
        "mem-fraction-static: 0.85\ncuda-graph-max-bs: 32\nkv-cache-dtype: fp8_e4m3\ntrust-remote-code: true\n",
        [{
            "engine": "sglang",
            "args": {
                "mem_fraction_static": 0.85, "cuda_graph_max_bs": 32, "kv_cache_dtype": "fp8_e4m3", "trust_remote_code": True,
            },
        }],
    ),
    "engine_config: TensorRT-LLM": (
        "kv_cache_config: {free_gpu_memory_fraction: 0.8}\nmax_batch_size: 64\ntensor_parallel_size: 2\n",
        [{
            "engine": "tensorrt-llm",
            "args": {"kv_cache_config": {"free_gpu_memory_fraction": 0.8}, "max_batch_size": 64, "tensor_parallel_size": 2},
        }],
    ),
    "engine_config: a section of Kaito's": (
        "max_probe_steps: 6\nvllm: {max-model-len: 1024, gpu-memory-utilization: 0.9}\n",
        [{"engine": "vllm", "args": {"max_model_len": 1024, "gpu_memory_utilization": 0.9}}],
    ),
}  # fmt: skip
