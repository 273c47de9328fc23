-- Estimators of the KL divergence of a policy from a reference, one value per token that the policy
-- sampled, with x = log pi - log ref (Schulman 2020, "Approximating KL divergence"):
--   k1 = x                  unbiased, with the largest variance
--   k2 = x^2 / 2            biased, with little variance
--   k3 = exp(-x) + x - 1    unbiased, with little variance, never below 0
-- A term of a loss needs the right gradient rather than the right value. Over the policy's own
-- tokens the mean gradient of k1 is 0, since E[grad log pi] = 0; that of k2 is the gradient of
-- KL(pi || ref), that of k3 the gradient of KL(ref || pi).
local kl = {}

function kl.k1(logprob, reference) return logprob - reference end
function kl.k2(logprob, reference) return (logprob - reference):square() / 2 end
function kl.k3(logprob, reference)
  local minus_x = reference - logprob
  return minus_x:exp() - minus_x - 1
end

-- Returns the estimator of this name as a term of a loss. Refuses k1: the run would log a KL that
-- looks like a penalty, and nothing would keep the policy near the reference.
function kl.loss(name)
  if name == "k2" or name == "k3" then return kl[name] end
  if name == "k1" then
    error("kl = \"k1\" cannot be a term of a loss: its mean gradient is 0, so nothing would keep "
      .. "the policy near the reference; use \"k3\" or \"k2\", or subtract k1 from the reward as "
      .. "rloo.lua does", 2)
  end
  error(("there is no KL term %q; a loss takes \"k3\" or \"k2\""):format(tostring(name)), 2)
end

return kl
