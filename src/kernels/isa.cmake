add_library(satformer_isa INTERFACE)
