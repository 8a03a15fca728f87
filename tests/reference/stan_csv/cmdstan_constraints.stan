// A simplex, an interval, a lower bound other than zero, and generated quantities.
data {
  int<lower=2> K;
  array[K] int<lower=0> n;
  int<lower=0> N;
  int<lower=0, upper=N> k;
  int<lower=0> M;
  vector[M] x;
}
parameters {
  simplex[K] p;
  real<lower=0, upper=1> r;
  real<lower=2> s;
}
model {
  p ~ dirichlet(rep_vector(2, K));
  n ~ multinomial(p);
  r ~ beta(2, 2);
  k ~ binomial(N, r);
  s ~ gamma(3, 1);
  x ~ normal(s, 1);
}
generated quantities {
  real odds = r / (1 - r);
  matrix[2, 2] m = [[p[1], p[2]], [r, s]];
  int k_rep = binomial_rng(N, r);
}
