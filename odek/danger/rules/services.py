"""Programs that act on containers, clusters, clouds and other services."""

from __future__ import annotations

from odek.danger.rules.table import DESTROY, EXEC, LOCAL, NET, SAFE, SYSTEM, CommandRow

CONTAINERS: tuple[CommandRow, ...] = (
    (SYSTEM, "acts on containers, which can reach the whole host", """
        docker, podman, nerdctl, docker-compose, podman-compose, buildah, skopeo, crictl, ctr, lxc, lxc-start, lxd,
        incus, vagrant, multipass, limactl, colima, minikube, kind, k3d, devcontainer, docker-machine, packer,
        vboxmanage, VBoxManage, virsh, virt-install, qm, pct, orb, finch, img, kaniko, umoci, runc, crun,
        docker compose, podman compose, docker container, docker image, docker volume, docker network,
        docker system, docker context, docker buildx, docker builder
        """),
    (NET, "asks the container engine", """
        docker ps, docker images, docker logs, docker inspect, docker version, docker info, docker stats,
        docker top, docker port, docker diff, docker history, docker events, docker search, docker pull,
        docker compose ps, docker compose logs, docker compose config, docker compose images, docker compose ls,
        docker compose top, docker compose version, docker compose pull, docker compose port, docker container ls,
        docker container list, docker container inspect, docker container logs, docker image ls,
        docker image inspect, docker image history, docker volume ls, docker volume inspect, docker network ls,
        docker network inspect, docker system df, docker system info, docker context ls, docker context show,
        docker buildx ls, docker buildx version, docker buildx inspect, docker manifest inspect, docker-compose ps,
        docker-compose logs, docker-compose config, docker-compose version, docker-compose pull, podman ps,
        podman images, podman logs, podman inspect, podman version, podman info, podman stats, podman top,
        podman pull, podman search, podman pod ps, nerdctl ps, nerdctl images, nerdctl logs, crictl ps,
        crictl images, skopeo inspect, minikube status, kind get, vagrant status, vagrant version, limactl list,
        colima status, multipass list, virsh list, k3d cluster list
        """),
    (DESTROY, "removes containers, images or data in bulk", """
        docker system prune, docker volume rm, docker volume prune, docker container prune, docker image prune,
        docker network prune, docker builder prune, podman system prune, podman volume rm, podman volume prune,
        podman system reset, podman machine rm, vagrant destroy, minikube delete, kind delete, k3d cluster delete,
        multipass delete, multipass purge, colima delete, limactl delete, virsh destroy, virsh undefine,
        docker swarm leave
        """),
)  # fmt: skip

CLOUDS: tuple[CommandRow, ...] = (
    (SYSTEM, "changes a cluster, a cloud or a service", """
        kubectl, oc, k9s, helm, helmfile, kustomize, argocd, flux, istioctl, linkerd, kubeseal, velero, skaffold,
        tilt, garden, stern, kubectx, kubens, aws, gcloud, gsutil, bq, az, doctl, heroku, fly, flyctl, vercel,
        netlify, wrangler, firebase, supabase, railway, render, cf, ibmcloud, oci, linode-cli, hcloud, scw, s3cmd,
        s5cmd, mc-client, b2, eksctl, ecs-cli, sam, cdk, serverless, sls, amplify, copilot, chalice, zappa, pulumi,
        terraform, tofu, terragrunt, tflint, tfsec, ansible, ansible-playbook, ansible-vault, ansible-pull, salt,
        salt-call, puppet, chef, chef-client, knife, nomad, waypoint, boundary, gh, glab, hub, tea, jira, stripe,
        twilio, sentry-cli, datadog-ci, newrelic, cap, eb, expo-cli, eas, dapr, temporal, cloudfoundry, pscale,
        turso, neon, neonctl, convex, shopify, sfdx, sf
        """),
    (NET, "asks a cluster, a cloud or a service", """
        kubectl get, kubectl describe, kubectl logs, kubectl top, kubectl explain, kubectl version,
        kubectl cluster-info, kubectl api-resources, kubectl api-versions, kubectl diff, kubectl config view,
        kubectl config get-contexts, kubectl config current-context, kubectl auth can-i, kubectl events,
        kubectl wait, kubectl rollout status, kubectl rollout history, oc get, oc describe, oc logs, oc status,
        helm list, helm ls, helm status, helm search, helm show, helm history, helm get, helm version,
        helm repo list, helm repo add, helm repo update, helm pull, helm dependency, helm diff, argocd app list,
        argocd app get, flux get, stern, terraform plan, terraform show, terraform output, terraform state list,
        terraform state show, terraform providers, terraform init, terraform refresh, terraform workspace list,
        tofu plan, tofu init, tofu show, tofu output, terragrunt plan, pulumi preview, pulumi stack, cdk diff,
        cdk list, cdk ls, sam validate, aws configure list, aws --version, aws s3 ls, aws sts get-caller-identity,
        gcloud info, gcloud version, gcloud config list, gcloud auth list, gcloud projects list, gsutil ls,
        gsutil cat, bq ls, bq show, az account show, az version, doctl account, heroku apps, heroku logs, heroku ps,
        heroku config, fly status, fly logs, flyctl status, flyctl logs, vercel ls, vercel logs, vercel inspect,
        netlify status, wrangler tail, wrangler whoami, firebase projects:list, eksctl get, s3cmd ls, nomad status,
        gh pr list, gh pr view, gh pr diff, gh pr checks, gh pr status, gh issue list, gh issue view,
        gh issue status, gh repo view, gh repo list, gh run list, gh run view, gh run watch, gh run download,
        gh workflow list, gh workflow view, gh release list, gh release view, gh release download, gh auth status,
        gh search, gh status, gh gist list, gh gist view, gh label list, gh cache list, gh repo clone,
        gh pr checkout, gh browse, gh --version, gh help, glab mr list, glab mr view, glab issue list,
        glab ci status, glab ci view, glab repo clone, hub clone, hub pull, jira issue list
        """),
    (LOCAL, "changes or checks files of the project", """
        terraform fmt, terraform validate, terraform version, tofu fmt, tofu validate, terragrunt hclfmt, helm lint,
        helm template, helm create, helm package, kustomize build, kubectl kustomize, kubectl completion,
        kubectl create --dry-run, tflint, tfsec, ansible-doc, ansible-inventory, gh completion, packer fmt,
        packer validate, nomad fmt, kubectx, kubens, cdk synth, pulumi new
        """),
    (DESTROY, "deletes what runs in a cluster or a cloud", """
        kubectl delete, kubectl drain, oc delete, helm uninstall, helm delete, terraform destroy, tofu destroy,
        terragrunt destroy, pulumi destroy, cdk destroy, sam delete, serverless remove, sls remove, eksctl delete,
        aws s3 rb, heroku apps:destroy, heroku pg:reset, fly destroy, fly apps destroy, flyctl destroy,
        flyctl apps destroy, vercel rm, vercel remove, netlify sites:delete, wrangler delete,
        firebase projects:delete, gh repo delete, gh repo archive, nomad stop, velero delete, argocd app delete,
        gcloud projects delete, az group delete, doctl compute droplet delete, s3cmd rb, supabase db reset,
        kubeadm reset, pscale database delete, terraform state rm
        """),
    (DESTROY, "deletes data", """
        dropdb, dropuser, redis-cli flushall, redis-cli flushdb, redis-cli FLUSHALL, redis-cli FLUSHDB,
        mysqladmin drop, valkey-cli flushall, rabbitmqctl reset, rabbitmqctl purge_queue, rabbitmqctl delete_vhost,
        flyway clean, liquibase drop-all, liquibase dropAll, migrate drop, etcdctl del, vault delete,
        vault kv destroy, consul kv delete, kafka-topics --delete
        """),
    (EXEC, "runs code", """
        ansible-lint, rabbitmq-plugins, firebase emulators:start, supabase start, wrangler dev, vercel dev,
        netlify dev, serverless offline, sls offline, sam local, sam build, cdk synth, amplify mock, pulumi about
        """),
    (SAFE, "only reads", "kubectl help, helm help, terraform --version, aws help, gcloud help, ansible --version"),
)  # fmt: skip
