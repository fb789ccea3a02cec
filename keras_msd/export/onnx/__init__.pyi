from keras_msd.export.onnx.convert import convert_network as convert_network
