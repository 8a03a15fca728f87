// Counts with slopes that vary by group, and vary together: a program of usual size.
data {
  int<lower=0> N;
  int<lower=1> J;
  int<lower=1> K;
  array[N] int<lower=1, upper=J> group;
  matrix[N, K] X;
  array[N] int<lower=0> y;
}
parameters {
  matrix[K, J] z;
  cholesky_factor_corr[K] L;
  vector<lower=0>[K] tau;
  vector[K] gamma;
  real<lower=0> phi;
}
transformed parameters {
  matrix[J, K] beta = rep_matrix(gamma', J) + (diag_pre_multiply(tau, L) * z)';
}
model {
  to_vector(z) ~ std_normal();
  L ~ lkj_corr_cholesky(2);
  tau ~ exponential(1);
  gamma ~ normal(0, 1);
  phi ~ inv_gamma(2, 1);
  y ~ neg_binomial_2_log(rows_dot_product(beta[group], X), phi);
}
generated quantities {
  corr_matrix[K] Omega = multiply_lower_tri_self_transpose(L);
  array[N] int y_rep = neg_binomial_2_log_rng(rows_dot_product(beta[group], X), phi);
}
