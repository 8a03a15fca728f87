# Vectors that any language can make: a linear congruential generator and closed-form quantiles.
U <- function(seed, S) {
  u <- numeric(S)
  s <- seed
  for (i in seq_len(S)) {
    s <- (16807 * s) %% 2147483647
    u[i] <- s / 2147483647
  }
  u
}
Z <- function(seed, S) qnorm(U(seed, S))
T2 <- function(seed, S) { u <- U(seed, S); (2 * u - 1) / sqrt(2 * u * (1 - u)) }
GP <- function(seed, S, k) {
  u <- U(seed, S)
  if (k != 0) log1p(expm1(-k * log1p(-u)) / k) else log(1 - log1p(-u))
}
