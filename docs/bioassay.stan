data {
  int n;
  vector[n] dose;
  array[n] int animals;
  array[n] int deaths;
}
parameters {
  real alpha;
  real beta;
}
model {
  deaths ~ binomial_logit(animals, alpha + beta * dose);
}
