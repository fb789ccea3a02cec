from keras_msd.teachers.guides import (
    EmbeddingGuide as EmbeddingGuide,
)
from keras_msd.teachers.guides import (
    JointTeacher as JointTeacher,
)
from keras_msd.teachers.teacher import (
    TEACHERS as TEACHERS,
)
from keras_msd.teachers.teacher import (
    Teacher as Teacher,
)
from keras_msd.teachers.vectors import (
    HashedWords as HashedWords,
)
from keras_msd.teachers.vectors import (
    VectorFile as VectorFile,
)
