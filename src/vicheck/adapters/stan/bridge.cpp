// A Stan model behind plain C functions, compiled together with what stanc makes of a program.
// headers.hpp includes what the program needs of Stan's mathematics, program.hpp is its code.
//
// Everything works on many points at a time, so that one call from Python covers a whole set of
// draws. Densities keep all constants and include the Jacobian. A point at which Stan rejects has
// the log density -inf and the gradient NaN; the reason is kept for `vicheck_message`.

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "headers.hpp"

#include <stan/io/array_var_context.hpp>
#include <stan/io/var_context.hpp>
#include <stan/model/prob_grad.hpp>

// The base of all models, without Stan's: that one has the density with and without constants,
// Jacobian and derivatives, in twelve ways of which two are needed, and all would be compiled.
#define STAN_MODEL_MODEL_BASE_HPP
#define STAN_MODEL_MODEL_BASE_CRTP_HPP

namespace stan {
namespace model {

class model_base : public prob_grad {
 public:
  using prob_grad::prob_grad;
  // What programs declare final, and so somebody has to declare first.
  virtual std::string model_name() const = 0;
  virtual void constrained_param_names(std::vector<std::string>&, bool, bool) const = 0;
  virtual void unconstrained_param_names(std::vector<std::string>&, bool, bool) const = 0;
  virtual void transform_inits(const io::var_context&, Eigen::VectorXd&, std::ostream*) const = 0;
};

template <typename Program>
class model_base_crtp : public model_base {
 public:
  using model_base::model_base;
};

}  // namespace model
}  // namespace stan

#include <stan/model/model_header.hpp>

#include "program.hpp"

namespace {

thread_local std::string message;

// Stan keeps what it differentiates for each thread by itself; a thread has to ask for it first.
void prepare_thread() { static thread_local stan::math::ChainableStack stack; }

using Model = stan_model;
using Vector = Eigen::VectorXd;

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) {
    all += name;
    all += '\n';
  }
  return all;
}

std::vector<std::string> lines(const char* text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

// Variables of one type: names, one a line; for each its rank and sizes; all values, the first
// index of each variable running fastest.
template <typename T>
struct Variables {
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> sizes;
  std::vector<T> values;

  Variables(const char* text, const long* shapes, const T* flat) : names(lines(text)) {
    size_t total = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const long rank = *shapes++;
      sizes.emplace_back(shapes, shapes + rank);
      shapes += rank;
      size_t count = 1;
      for (size_t size : sizes.back()) count *= size;
      total += count;
    }
    values.assign(flat, flat + total);
  }
};

// Data as Stan reads them from JSON, where its own class for arrays differs: real parts come before
// imaginary parts, as the last index is the slowest, and what is declared empty must be.
class Data : public stan::io::array_var_context {
 public:
  Data(const Variables<double>& real, const Variables<int>& integer)
      : array_var_context(real.names, real.values, real.sizes, integer.names, integer.values,
                          integer.sizes) {}

  std::vector<std::complex<double>> vals_c(const std::string& name) const override {
    const std::vector<double> parts = vals_r(name);
    const size_t count = parts.size() / 2;
    std::vector<std::complex<double>> all;
    for (size_t i = 0; i < count; ++i) all.emplace_back(parts[i], parts[count + i]);
    return all;
  }

  void validate_dims(const std::string& stage, const std::string& name, const std::string& type,
                     const std::vector<size_t>& declared) const override {
    size_t count = 1;
    for (size_t size : declared) count *= size;
    if (count == 0 && vals_r(name).empty()) return;
    stan::io::validate_dims(*this, stage, name, type, declared);
  }
};

Vector row(const double* points, long index, long size) {
  return Eigen::Map<const Vector>(points + index * size, size);
}

}  // namespace

extern "C" {

const char* vicheck_message() { return message.c_str(); }

void* vicheck_new(const char* real_names, const long* real_shapes, const double* reals,
                  const char* int_names, const long* int_shapes, const int* ints,
                  unsigned int seed) {
  prepare_thread();
  try {
    const Variables<double> real(real_names, real_shapes, reals);
    const Variables<int> integer(int_names, int_shapes, ints);
    Data data(real, integer);
    std::ostringstream printed;
    return new Model(data, seed, &printed);
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
        values[i] = model.log_prob<false, true>(z, &printed);
      } else {
        stan::math::nested_rev_autodiff nested;
        Eigen::Matrix<stan::math::var, -1, 1> at = z;
        stan::math::var value = model.log_prob<false, true>(at, &printed);
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
