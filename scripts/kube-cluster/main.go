// Command kubelab holds the parts of a test cluster in one binary; the name it is
// called by says which part runs. One binary links once and shares its pages.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"

	"github.com/spf13/pflag"
)

func main() {
	switch part := filepath.Base(os.Args[0]); part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	case "kwok":
		flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
		flags.ParseErrorsAllowlist.UnknownFlags = true
		flags.Usage = func() {}
		ctx, _ := kwoklog.InitFlags(context.Background(), flags)
		ctx, err := kwokconfig.InitFlags(ctx, flags)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		command := kwok.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flags)
		command.Version = "" // its --version meets that of the others
		if command.ExecuteContext(ctx) != nil {
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "call me by the name of a part: etcd, kube-apiserver, kube-controller-manager, "+
			"kube-scheduler, kubectl or kwok, not", part)
		os.Exit(2)
	}
}
