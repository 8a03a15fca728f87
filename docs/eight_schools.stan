// The eight schools in both parametrizations: theta itself is a parameter, or theta_raw is.
data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
  int<lower=0, upper=1> centred;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] eta;
}
transformed parameters {
  vector[J] theta = centred ? eta : mu + tau * eta;
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  if (centred) {
    eta ~ normal(mu, tau);
  } else {
    eta ~ std_normal();
  }
  y ~ normal(theta, sigma);
}
generated quantities {
  real mu_sim = normal_rng(0, 5);
  real<lower=0> tau_sim = abs(cauchy_rng(0, 5));
  vector[J] eta_sim;
  array[J] real y_sim;
  for (j in 1 : J) {
    eta_sim[j] = centred ? normal_rng(mu_sim, tau_sim) : std_normal_rng();
    y_sim[j] = normal_rng(centred ? eta_sim[j] : mu_sim + tau_sim * eta_sim[j], sigma[j]);
  }
}
