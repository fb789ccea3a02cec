from keras_msd.models.encoder import EmbeddingGuide as EmbeddingGuide
from keras_msd.teachers.teacher import TEACHERS as TEACHERS
from keras_msd.teachers.teacher import HashedWords as HashedWords
from keras_msd.teachers.teacher import JointTeacher as JointTeacher
from keras_msd.teachers.teacher import Teacher as Teacher
from keras_msd.teachers.teacher import VectorFile as VectorFile
