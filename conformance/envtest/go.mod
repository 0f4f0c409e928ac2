module evenkeel.dev/conformance/envtest

go 1.26.0
