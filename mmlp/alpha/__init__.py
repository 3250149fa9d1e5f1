"""The paper's alpha-derivative backpropagation, as in its appendices.

This is the reference for the fast path: NumPy in float64, one sample at a time, every H
formed and every Jacobian dense. It is slow on purpose, to be read beside the paper.
Where the paper has a mistake, the formula here is the corrected one and a comment says
what is printed (docs/errata.md).

    calculus      vec, P, K, the product rule                       Appendices A and B
    losses        D_Yhat of the Stein and von Neumann divergences   Appendices C and D
    basic         feedforward and backpropagation, Eq. (mlpa)       Appendix E
                  the shallow design, Eq. (mlps)
    general       the same for the general form, Eq. (mmlpb)        Appendix F
    activations   the Mercer sigmoid and others, with D_Z H         Appendix G
    densities     log densities and stochastic representations      Appendices H and I
    vae           both estimators of the ELBO by theta and phi      Appendix J

A network is a list of layers whose index l is the paper's: layers[0] is the output,
layers[j+1] the input. The weights are the paper's own. Those of `mmlp.MatrixMLP` run
from input to output and differ by constants,

    W_l = sqrt(d_{l+1}) * (its W) for l <= j,   C_l = d_l * (its C),   all others equal,

so that its gradients are those by W_l times sqrt(d_{l+1}), by C_l times d_l.
"""
