// SPDX-License-Identifier: Apache-2.0
// What Python sees.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "backend.hpp"

namespace py = pybind11;
using tutti_torch::Backend;
using tutti_torch::GroupOptions;

using BaseOptions = c10::intrusive_ptr<c10d::Backend::Options>;

// Options of another class (PyTorch's plain ones, Gloo's) tell what all backends have.
static c10::intrusive_ptr<GroupOptions> own_options(const std::optional<BaseOptions> &given)
{
    auto *ours = given.has_value() ? dynamic_cast<GroupOptions *>(given->get()) : nullptr;

    if (ours != nullptr)
        return c10::make_intrusive<GroupOptions>(*ours);
    auto o = c10::make_intrusive<GroupOptions>();
    if (given.has_value()) {
        o->group_desc = (*given)->group_desc;
        o->enable_reconfigure = (*given)->enable_reconfigure;
    }
    return o;
}

// PyTorch calls it for every new group; `given`: the user's pg_options or None.
static c10::intrusive_ptr<Backend> create(const c10d::DistributedBackendOptions &opts,
                                          const std::optional<BaseOptions> &given,
                                          const std::string &name)
{
    auto o = own_options(given);

    o->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(opts.timeout);
    o->group_name = opts.group_id;
    o->enable_reconfigure = o->enable_reconfigure || opts.enable_reconfigure;
    o->global_ranks_in_group.assign(opts.global_ranks_in_group.begin(),
                                    opts.global_ranks_in_group.end());
    return c10::make_intrusive<Backend>(opts.store, opts.group_rank, opts.group_size, o, name);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    auto distributed = py::module_::import("torch._C._distributed_c10d");
    (void)distributed; // its types are ours' bases

    m.attr("torch_version") = TORCH_VERSION;
    m.attr("tutti_version") = tt_version();

    py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options>(m, "Options")
        .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
        .def_readwrite("staging_bytes", &GroupOptions::staging_bytes)
        .def_readwrite("no_cma", &GroupOptions::no_cma);

    py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(m, "Backend")
        .def("_empty", [](Backend &b, const std::vector<int64_t> &shape,
                          at::ScalarType type) { return b.empty(shape, type); })
        .def_property_readonly("options", &Backend::getBackendOptions);

    m.def("create", &create, py::arg("options"), py::arg("pg_options"), py::arg("name"),
          py::call_guard<py::gil_scoped_release>());
}
