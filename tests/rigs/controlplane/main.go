// Command controlplane is etcd and kube-apiserver in one file.
//
// The first argument chooses the program; each runs as its own process, because they share process-wide state (klog,
// feature gates, metric registries, signals).
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	program := ""
	if len(os.Args) > 1 {
		program = os.Args[1]
		os.Args = os.Args[1:] // both read os.Args themselves
	}
	switch program {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	default:
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver [flags]")
		os.Exit(2)
	}
}
