# The files that `cmake --install` writes: the command, its manual page and completion, machine files, and the library for
# find_package(weft).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS weft)
install(DIRECTORY machines DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
# The command writes its manual page and completion itself, so that they match its options.
if(NOT CMAKE_CROSSCOMPILING)
  set(weft_shell_folder ${CMAKE_BINARY_DIR}/shell)
  file(MAKE_DIRECTORY ${weft_shell_folder})
  foreach(written "man;weft.1" "completion;bash;weft.bash" "completion;zsh;_weft")
    list(POP_BACK written file)
    list(JOIN written "\" \"" words)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:weft>\" \"${words}\" OUTPUT_FILE \"${weft_shell_folder}/${file}\"
                                  COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
  install(FILES ${weft_shell_folder}/weft.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${weft_shell_folder}/weft.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weft)
  install(FILES ${weft_shell_folder}/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

if(WEFT_ISA STREQUAL "all")
  # The command finds its levels beside itself, which a user's own program couldn't, so there is no library to link.
  install(FILES runtime/policy/policy_abi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)
  include(cmake/package.cmake)
  return()
endif()

# weft::weft has all rooms that a program may use; weft::plan, … are single rooms. Training belongs to the command.
set(weft_rooms base graph kernels ops plan cost time policy comm simulate layouts execute inspect report)
add_library(weft_all INTERFACE)
target_link_libraries(weft_all INTERFACE weft_ops weft_execute weft_report)
set_target_properties(weft_all PROPERTIES EXPORT_NAME weft)
set(weft_targets weft_all)
foreach(room ${weft_rooms})
  set_target_properties(weft_${room} PROPERTIES EXPORT_NAME ${room})
  list(APPEND weft_targets weft_${room})
endforeach()
install(TARGETS ${weft_targets} EXPORT weftTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Excluded are headers of kernels, whose vector code depends on -march, of MPI, and of what loads libraries. The CPU's is the only executor
# installed.
file(GLOB_RECURSE weft_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     base/*.h graph/*.h ops/*.h runtime/*.h inspect/*.h)
list(FILTER weft_headers EXCLUDE REGEX "^runtime/(execute|policy/library|policy/python)/|^runtime/comm/(control|greeting|rendezvous|socket|tcp_port)\\.h$|/mpi_communicator\\.h$|/policy_abi\\.h$")
list(APPEND weft_headers runtime/execute/channel_groups.h runtime/execute/cpu/cpu_executor.h
                         runtime/execute/executor.h runtime/execute/program/program.h
                         runtime/execute/state.h runtime/execute/watchdog.h)
set(weft_include_folder ${CMAKE_INSTALL_INCLUDEDIR}/weft)
configure_file(cmake/install_headers.cmake.in ${CMAKE_BINARY_DIR}/install_headers.cmake @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_headers.cmake)
install(FILES runtime/policy/policy_abi.h DESTINATION ${weft_include_folder})  # included by users' policies

set(weft_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_folder})
configure_package_config_file(cmake/weftConfig.cmake.in ${CMAKE_BINARY_DIR}/weftConfig.cmake
                              INSTALL_DESTINATION ${weft_package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weftConfig.cmake ${CMAKE_BINARY_DIR}/weftConfigVersion.cmake cmake/dnnl.cmake
        DESTINATION ${weft_package_folder})
