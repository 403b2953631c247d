# `cpack` in a build with WEFT_ISA=all: a .deb and a .tar.gz of the command for other machines (docs/packages.md).
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "The Weft maintainers")
set(CPACK_PACKAGE_CONTACT "The Weft maintainers <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains transformers on CPUs by compiling a step into a graph of tasks")
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_README ${CMAKE_SOURCE_DIR}/README.md)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # dpkg-shlibdeps finds the libraries' packages and versions
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)  # Open MPI's library starts programs of this package
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS graphviz)
include(CPack)
