// How a launcher tells a process its place: torchrun and shells by RANK and WORLD_SIZE, Slurm by SLURM_PROCID.
// Launchers speak by the environment, which is read here, where the command line is read, and nowhere else.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/comm/tcp.h"
#include "train/config/config.h"

namespace weft::tools {

/// The value of a variable.
using Environment = std::function<std::optional<std::string>(const char* name)>;
/// The one of this process.
Environment process_environment();

/// The place of this process among those that meet over TCP; empty if it is alone, or if mpirun or another launcher
/// that brings MPI started it. Throws UserError for values that contradict each other.
std::optional<comm::TcpLaunch> tcp_launch(const Environment& environment);

/// The first host of Slurm's list: "node003" of "node[003-006,009],login1".
std::string first_host(const std::string& list);

/// The configuration, with the place of this process.
train::RunConfig launched(train::RunConfig config);

/// Whether a launcher of either kind started this process as a rank other than 0.
bool launched_as_later_rank();

}  // namespace weft::tools
