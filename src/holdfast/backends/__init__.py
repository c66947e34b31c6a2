"""Other forms of a transformer for inference: graphs run by onnxruntime or OpenVINO in place of torch."""
