"""llama.cpp's C interface in the prebuilt library of PyPI's xllamacpp: as much of it as peer.py calls, under the names that
llama-cpp-python has. The structs are those of one version alone."""

import ctypes
import importlib.metadata
import sys

import xllamacpp

VERSION = "2026.10.11549"
if importlib.metadata.version("xllamacpp") != VERSION:
    sys.exit(f"xllama.py knows the structs of xllamacpp {VERSION} alone")
library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)

i8, i32, u32, f32 = ctypes.c_int8, ctypes.c_int32, ctypes.c_uint32, ctypes.c_float
flag, size, pointer, number = ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int


def struct(name: str, *groups: tuple) -> type:
    """Groups of a type and the names of the fields that have it, in order."""
    fields = [(field, kind) for kind, names in groups for field in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


ModelParams = struct(
    "ModelParams", (pointer, "devices overrides"), (i32, "n_gpu_layers"), (number, "split_mode load_mode lazy_mode"), (i32, "main_gpu"),
    (pointer, "tensor_split progress progress_data kv_overrides"),
    (flag, "vocab_only check_tensors use_extra_bufts no_host no_alloc load_mtp"))
ContextParams = struct(
    "ContextParams", (u32, "n_ctx n_batch n_ubatch n_seq_max n_rs_seq n_outputs_max n_outputs_max_per_seq"), (i32, "n_threads n_threads_batch"),
    (number, "ctx_type rope_scaling_type pooling_type attention_type flash_attn_type"),
    (f32, "rope_freq_base rope_freq_scale yarn_ext_factor yarn_attn_factor yarn_beta_fast yarn_beta_slow"), (u32, "yarn_orig_ctx"),
    (f32, "defrag_thold"), (pointer, "cb_eval cb_eval_user_data"), (number, "type_k type_v"), (size, "moe_cache_size"),
    (pointer, "abort_callback abort_callback_data"), (flag, "embeddings offload_kqv no_perf op_offload swa_full kv_unified"),
    (pointer, "samplers"), (size, "n_samplers"), (pointer, "ctx_other"))
Batch = struct(
    "Batch", (i32, "n_tokens"), (ctypes.POINTER(i32), "token"), (ctypes.POINTER(f32), "embd"), (ctypes.POINTER(i32), "pos n_seq_id"),
    (ctypes.POINTER(ctypes.POINTER(i32)), "seq_id"), (ctypes.POINTER(i8), "logits"))
llama_log_callback = ctypes.CFUNCTYPE(None, number, ctypes.c_char_p, pointer)


def call(name: str, returns: type | None, *takes: type):
    function = getattr(library, name)
    function.restype, function.argtypes = returns, takes
    return function


llama_log_set = call("llama_log_set", None, llama_log_callback, pointer)
llama_backend_init = call("llama_backend_init", None)
llama_model_default_params = call("llama_model_default_params", ModelParams)
llama_model_load_from_file = call("llama_model_load_from_file", pointer, ctypes.c_char_p, ModelParams)
llama_context_default_params = call("llama_context_default_params", ContextParams)
llama_init_from_model = call("llama_init_from_model", pointer, pointer, ContextParams)
llama_model_get_vocab = call("llama_model_get_vocab", pointer, pointer)
llama_vocab_n_tokens = call("llama_vocab_n_tokens", i32, pointer)
llama_batch_init = call("llama_batch_init", Batch, i32, i32, i32)
llama_decode = call("llama_decode", i32, pointer, Batch)
llama_synchronize = call("llama_synchronize", None, pointer)
llama_get_memory = call("llama_get_memory", pointer, pointer)
llama_memory_clear = call("llama_memory_clear", None, pointer, flag)
llama_print_system_info = call("llama_print_system_info", ctypes.c_char_p)
