from keras_msd.checkpoints.loading import load_encoder as load_encoder
