// A Stan model behind plain C functions, compiled together with what stanc makes of a program.
//
// Everything works on many points at a time, so that one call from Python covers a whole set of
// draws. Densities keep all constants and include the Jacobian. A point at which Stan rejects has
// the log density -inf and the gradient NaN; the reason is kept for `vicheck_message`.

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <stan/io/json/json_data.hpp>
#include <stan/model/model_base.hpp>

#include VICHECK_PROGRAM

namespace {

thread_local std::string message;

// Stan keeps what it differentiates for each thread by itself; a thread has to ask for it first.
void prepare_thread() { static thread_local stan::math::ChainableStack stack; }

using Model = stan::model::model_base;
using Vector = Eigen::VectorXd;

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) {
    all += name;
    all += '\n';
  }
  return all;
}

Vector row(const double* points, long index, long size) {
  return Eigen::Map<const Vector>(points + index * size, size);
}

}  // namespace

extern "C" {

const char* vicheck_message() { return message.c_str(); }

void* vicheck_new(const char* json, unsigned int seed) {
  prepare_thread();
  try {
    std::istringstream stream(json);
    stan::json::json_data data(stream);
    std::ostringstream printed;
    return &new_model(data, seed, &printed);
  } catch (const std::exception& error) {
    message = error.what();
    return nullptr;
  }
}

void vicheck_delete(void* model) { delete static_cast<Model*>(model); }

long vicheck_dim(void* model) { return static_cast<Model*>(model)->num_params_r(); }

// Names of the constrained parameters, one a line; the result lives until the next call.
const char* vicheck_names(void* model, bool transformed, bool generated) {
  std::vector<std::string> names;
  static_cast<Model*>(model)->constrained_param_names(names, transformed, generated);
  message = joined(names);
  return message.c_str();
}

// Log densities at `count` points and, unless `gradients` is null, their gradients.
void vicheck_log_density(void* handle, const double* points, long count, double* values,
                         double* gradients) {
  prepare_thread();
  const Model& model = *static_cast<Model*>(handle);
  const long dim = model.num_params_r();
  for (long i = 0; i < count; ++i) {
    Vector z = row(points, i, dim);
    Vector gradient(dim);
    std::ostringstream printed;
    try {
      if (gradients == nullptr) {
        values[i] = model.log_prob_jacobian(z, &printed);
      } else {
        stan::math::nested_rev_autodiff nested;
        Eigen::Matrix<stan::math::var, -1, 1> at = z;
        stan::math::var value = model.log_prob_jacobian(at, &printed);
        values[i] = value.val();
        value.grad();
        gradient = at.adj();
      }
    } catch (const std::exception& error) {
      message = error.what();
      values[i] = -std::numeric_limits<double>::infinity();
      gradient.setConstant(std::numeric_limits<double>::quiet_NaN());
    }
    if (gradients != nullptr) std::memcpy(gradients + i * dim, gradient.data(), dim * sizeof(double));
  }
}

// Constrained parameters at `count` points, `width` numbers each; point i draws with seed + i.
// Returns how many points Stan rejected: their numbers are NaN.
long vicheck_constrain(void* handle, const double* points, long count, bool transformed,
                       bool generated, unsigned int seed, long width, double* values) {
  prepare_thread();
  const Model& model = *static_cast<Model*>(handle);
  const long dim = model.num_params_r();
  long rejected = 0;
  for (long i = 0; i < count; ++i) {
    Vector z = row(points, i, dim);
    Vector theta = Vector::Constant(width, std::numeric_limits<double>::quiet_NaN());
    std::ostringstream printed;
    stan::rng_t rng = stan::services::util::create_rng(seed + static_cast<unsigned int>(i), 1);
    try {
      model.write_array(rng, z, theta, transformed, generated, &printed);
    } catch (const std::exception& error) {
      message = error.what();
      ++rejected;
    }
    std::memcpy(values + i * width, theta.data(), width * sizeof(double));
  }
  return rejected;
}

// Unconstrained parameters; returns 0, or 1 with a message for values out of their support.
int vicheck_unconstrain(void* handle, const double* constrained, long size, double* z) {
  prepare_thread();
  const Model& model = *static_cast<Model*>(handle);
  std::ostringstream printed;
  try {
    Vector found;
    model.unconstrain_array(row(constrained, 0, size), found, &printed);
    std::memcpy(z, found.data(), found.size() * sizeof(double));
    return 0;
  } catch (const std::exception& error) {
    message = error.what();
    return 1;
  }
}
}
